"""Problems like those of the contest, made from the programs of the zoo."""
