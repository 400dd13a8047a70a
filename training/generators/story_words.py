"""Words for the story generator: facts a prompt may state, each one lower-case word.

A place carries its preposition ("in the forest"), because the answer is the bare noun while the
story needs the phrase. Own work, no third-party list.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ANIMALS = _words(
    """
    badger bear beaver bee beetle bird bull camel cat chicken cow crab cricket crow deer dog
    dolphin donkey dove duck eagle elephant fish fox frog gecko giraffe goat goose hamster
    hare hawk hedgehog hen horse kitten ladybug lamb lizard magpie mole monkey moose moth
    mouse otter owl panda parrot pelican penguin pig pony puppy rabbit raccoon rat raven robin
    seal sheep snail sparrow spider squirrel swan tiger toad turkey turtle whale wolf worm
    zebra
    """
)

FEELINGS = _words(
    """
    afraid angry annoyed ashamed bored brave calm cheerful confused curious delighted
    disappointed eager excited foolish glad grateful guilty happy hopeful hungry jealous
    joyful lonely lucky nervous peaceful pleased proud puzzled relieved sad safe scared shy
    silly sleepy surprised thankful thirsty tired worried
    """
)

COLOURS = _words(
    """
    black blue brown cream crimson gold gray green maroon navy orange pink purple red scarlet
    silver tan teal turquoise violet white yellow
    """
)

OBJECTS = _words(
    """
    acorn anchor apron badge bag ball balloon banjo basket bead bell belt blanket boat book
    boot bottle bow bowl box bracelet brick brush bucket button cake candle cap card chain
    clock coat coin comb compass crayon crown cup cushion dice doll drum envelope fan feather
    flag flower flute fork globe glove guitar hammer hat helmet hook horn jacket jar kettle
    key kite ladder lamp lantern leaf lemon letter lock map marble mask medal mirror mitten
    mug nail necklace needle net notebook nut paddle paintbrush pan parcel pebble pen pencil
    penny photo pillow pin pipe plate pot pumpkin purse puzzle ribbon ring robot rock rope
    ruler sack scarf shell shield shoe shovel skateboard sled slipper sock spoon stamp stick
    stone stool string sweater sword teapot telescope tent ticket toy trophy truck trumpet
    umbrella vase violin wagon wallet watch wheel whistle wig yarn
    """
)

_PLACES_BY_PREPOSITION = {
    "in": _words(
        """
        alley attic barn basement bathroom bedroom cabin cave cellar cottage desert ditch
        field forest garage garden greenhouse hall kitchen library meadow museum orchard
        park stable swamp tunnel valley village woods workshop yard
        """
    ),
    "at": _words(
        """
        airport bakery bank beach bridge cafe castle church circus clinic dock farm fair
        fountain gate gym harbor hotel lake lighthouse mall market mill office palace
        playground pond pool port river school shop stadium station store temple theater
        tower well zoo
        """
    ),
    "on": _words(
        """
        balcony cliff hill hilltop island mountain path porch road roof stage terrace
        """
    ),
}
PREPOSITION = {
    place: preposition for preposition, places in _PLACES_BY_PREPOSITION.items() for place in places
}
PLACES = tuple(PREPOSITION)

FOODS = _words(
    """
    apples beans berries biscuits bread carrots cereal cheese cherries chips chocolate cookies
    corn crackers dates dumplings eggs figs fries grapes honey jam melon muffins noodles nuts
    olives pancakes pasta peaches peanuts pears pickles pie pizza plums popcorn porridge
    potatoes pretzels pudding raisins rice salad sandwiches soup stew strawberries toast
    tomatoes waffles yogurt
    """
)

GIRLS = _words(
    """
    Ada Alice Amara Amina Amy Anna Aria Ava Beth Bella Cara Carla Clara Daisy Dina Ella Elsa
    Emily Emma Esther Eva Fatima Fay Fiona Gina Grace Hana Hannah Holly Ida Iris Isla Ivy Jade
    Jane Jasmine Joy Julia Kate Keiko Lara Laura Layla Leila Lena Lily Lina Lola Lucy Luna
    Maria Maya Mei Mia Mina Molly Nadia Nina Nora Olga Olive Paula Petra Priya Rita Rosa Rose
    Ruby Ruth Sana Sara Sofia Stella Suki Tara Tess Tina Vera Wendy Yara Zara Zoe
    """
)

BOYS = _words(
    """
    Aaron Abel Adam Ahmed Alan Alex Andre Anton Ben Bilal Boris Bruno Caleb Carl Carlos Chen
    Colin Dan Daniel David Diego Dylan Eli Eric Ethan Felix Finn Frank Fred George Hamid Harry
    Henry Hugo Ian Igor Isaac Ivan Jack Jacob James Jamal Jin Joel John Jonas Karl Kenji Kofi
    Kwame Leo Liam Louis Luis Luke Marco Mark Max Milo Nick Noah Oliver Omar Oscar Otto Owen
    Paul Pedro Peter Rafael Raj Ravi Rob Sam Samir Simon Tariq Theo Tim Tom Victor Will Yusuf
    Zane
    """
)
