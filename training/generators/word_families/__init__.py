"""The families of word problems; each module's `FAMILIES` maps a name to a builder."""
