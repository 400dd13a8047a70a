"""Names, things and places that the word-problem and story generators share.

Own lists of everyday words, written for this project. Everything is plain ASCII. `NAMES` holds
(name, pronoun) with the pronoun "she" or "he"; `OBJECTS` and `FOODS` hold (singular, plural) of
countable things; `PLACES` read after "at the"; `TASKS` are (verb, third person, plural thing).
"""

from __future__ import annotations

_SHE = """
Abigail Ada Adele Agnes Aisha Alba Alice Alma Amanda Amber Amelia Amina Amy Ana Andrea Angela Anika
Anita Anna Asha Astrid Audrey Ava Beatrice Bella Bianca Brenda Bridget Camila Carla Carmen Carol
Cathy Celia Chloe Clara Claire Cora Daisy Dana Daphne Deepa Della Diana Dina Donna Dora Edith Elena
Elise Ella Elsa Emily Emma Erica Esther Eva Farah Fatima Fay Fiona Flora Frances Freya Gemma Gina
Gloria Grace Greta Hana Hannah Hazel Heidi Helen Hilda Holly Ida Ines Ingrid Irene Iris Isabel Ivy
Jane Jasmine Jenny Jill Joan Joy Judy Julia June Kate Kavya Keiko Lara Laura Layla Leah Leila Lena
Lily Lina Linda Lisa Lola Lucy Luna Mabel Maria Marta Maya Megan Mei Mia Mila Mina Mira Molly Nadia
Naomi Nina Nora Olga Olive Olivia Paula Pearl Penny Petra Pia Priya Rachel Rita Rosa Rose Ruby Ruth
Sadie Salma Sara Selma Sofia Stella Tara Tess Tina Uma Vera Viola Wendy Yara Yoko Zara Zoe
"""

_HE = """
Aaron Adam Ahmed Alan Albert Alex Ali Amir Andre Andrew Anton Arjun Arthur Ben Bilal Boris Brian
Bruno Caleb Carl Carlos Chris Colin Daniel David Dean Diego Dylan Eddie Eli Emil Eric Ethan Felix
Finn Frank Fred George Gus Hans Harry Hassan Henry Hugo Ian Igor Isaac Ivan Jack Jacob Jake James
Jamal Jason Javier Jesse Joe Joel John Jonas Jorge Joseph Josh Juan Karl Keith Ken Kenji Kevin Kofi
Kurt Lars Leo Leon Liam Louis Luca Lucas Luis Luke Malik Marco Mario Mark Martin Mateo Max Miguel
Mike Milo Nathan Neil Nick Noah Oleg Oliver Omar Oscar Otto Owen Pablo Patrick Paul Pedro Peter Phil
Rafael Raj Ralph Ravi Ray Ricardo Rob Robin Roger Roman Rohan Ryan Sam Samir Scott Sean Simon Stefan
Steve Tariq Ted Theo Thomas Tim Toby Tom Tony Umar Victor Vikram Walter Will Yusuf Zack
"""

NAMES: tuple[tuple[str, str], ...] = tuple(
    [(name, "she") for name in _SHE.split()] + [(name, "he") for name in _HE.split()]
)

# pronoun -> (subject, possessive, object)
PRONOUNS: dict[str, tuple[str, str, str]] = {
    "she": ("she", "her", "her"),
    "he": ("he", "his", "him"),
}


def _pairs(regular: str, irregular: str) -> tuple[tuple[str, str], ...]:
    """(singular, plural): `regular` takes an s, `irregular` has entries `singular=plural`.

    An underscore stands for a space inside an entry.
    """
    pairs = [(word, word + "s") for word in regular.split()]
    pairs += [tuple(entry.split("=")) for entry in irregular.split()]
    return tuple((one.replace("_", " "), many.replace("_", " ")) for one, many in pairs)


# things that can be owned, counted, given away, bought and sold
OBJECTS: tuple[tuple[str, str], ...] = _pairs(
    """
    apple ball balloon banana basket bead bell belt book bottle bow bowl bracelet brick bucket
    button candle candy_bar card carrot chair clip coin cookie crayon crystal cup cupcake doll
    egg envelope eraser feather flag flower fork frog_sticker game glove gem glass_bead hat
    helmet jar jacket jewel kite key ladle lamp lantern lemon letter magazine magnet map marble
    marker mask medal mug mushroom nail napkin necklace notebook nut onion orange
    pancake pear pebble pen pencil picture pillow pin pinecone plant plate poster postcard pot
    potato_chip puppet pumpkin puzzle ribbon ring robot rock rope rose ruler sandwich_bag scarf_pin
    seashell seed shell shirt shovel spoon stamp star_sticker sticker stone straw sweet tulip
    tennis_ball ticket tile token towel toy_car toy_boat toy_train tree trophy_card turnip vase
    walnut whistle wooden_block yo-yo acorn almond badge bagel bookmark comic donut fossil hair_band
    keychain muffin plum plastic_cup poem_card paper_plane sunflower snow_globe souvenir
    """,
    """
    box=boxes brush=brushes paintbrush=paintbrushes
    cherry=cherries daisy=daisies dish=dishes dress=dresses knife=knives
    leaf=leaves loaf=loaves peach=peaches potato=potatoes strawberry=strawberries tomato=tomatoes
    sandwich=sandwiches paper_crane=paper_cranes scarf=scarves watch=watches toy=toys
    """,
)

# eaten, baked or picked: also usable as OBJECTS
FOODS: tuple[tuple[str, str], ...] = _pairs(
    """
    apple banana carrot cookie cupcake egg lemon mushroom onion orange pancake pear plum muffin
    donut bagel walnut almond turnip pumpkin waffle pie tart grape olive apricot fig date mango
    pretzel
    """,
    "cherry=cherries peach=peaches potato=potatoes strawberry=strawberries tomato=tomatoes",
)

ANIMALS: tuple[tuple[str, str], ...] = _pairs(
    """
    dog cat duck hen horse cow goat pig rabbit bird frog turtle parrot hamster lamb
    """,
    "fish=fish sheep=sheep goose=geese mouse=mice puppy=puppies pony=ponies",
)

# read after "at the" and "from the"
PLACES: tuple[str, ...] = tuple(
    place.replace("_", " ")
    for place in [
        "market",
        "store",
        "bakery",
        "bookshop",
        "park",
        "school",
        "library",
        "fair",
        "zoo",
        "museum",
        "garden",
        "farm",
        "beach",
        "harbor",
        "bus_station",
        "toy_shop",
        "corner_shop",
        "flea_market",
        "mall",
        "office",
        "cafe",
        "gift_shop",
        "school_fair",
        "community_center",
        "sports_club",
        "craft_fair",
        "playground",
        "pond",
        "campsite",
        "swimming_pool",
        "post_office",
        "town_hall",
        "music_school",
        "art_class",
    ]
)

# who gives or receives: read after a possessive ("her brother")
RELATIVES: tuple[str, ...] = (
    "brother", "sister", "cousin", "mother", "father", "aunt", "uncle", "grandmother",
    "grandfather", "neighbor", "best friend", "friend", "teacher", "classmate",
)  # fmt: skip

# what holds things: (singular, plural)
CONTAINERS: tuple[tuple[str, str], ...] = _pairs(
    "bag basket crate jar tray drawer bucket packet carton case tin sack pack chest bin",
    "box=boxes shelf=shelves",
)

COLORS: tuple[str, ...] = (
    "red", "blue", "green", "yellow", "white", "black", "orange", "purple", "pink", "brown",
    "gray", "silver", "golden",
)  # fmt: skip

DAYS: tuple[str, ...] = (
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
)  # fmt: skip

MONTHS: tuple[str, ...] = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip

# (verb, third person, plural things): steady work that a rate can describe
TASKS: tuple[tuple[str, str, str], ...] = (
    ("paint", "paints", "tiles"), ("solve", "solves", "puzzles"), ("pack", "packs", "boxes"),
    ("bake", "bakes", "cookies"), ("read", "reads", "pages"), ("write", "writes", "letters"),
    ("fold", "folds", "shirts"), ("plant", "plants", "trees"), ("pick", "picks", "apples"),
    ("wash", "washes", "cars"), ("make", "makes", "bracelets"), ("sew", "sews", "buttons"),
    ("draw", "draws", "pictures"), ("sell", "sells", "tickets"), ("type", "types", "pages"),
    ("deliver", "delivers", "newspapers"), ("collect", "collects", "shells"),
    ("learn", "learns", "new words"), ("carve", "carves", "spoons"), ("knit", "knits", "hats"),
    ("repair", "repairs", "bikes"), ("polish", "polishes", "shoes"), ("grill", "grills", "burgers"),
    ("water", "waters", "plants"), ("label", "labels", "jars"), ("stack", "stacks", "crates"),
    ("catch", "catches", "fish"), ("record", "records", "songs"), ("print", "prints", "posters"),
    ("build", "builds", "toy boats"), ("clean", "cleans", "windows"), ("sort", "sorts", "letters"),
    ("peel", "peels", "potatoes"), ("wrap", "wraps", "presents"), ("lay", "lays", "bricks"),
    ("harvest", "harvests", "pumpkins"), ("fill", "fills", "bottles"),
    ("sharpen", "sharpens", "pencils"),
)  # fmt: skip
