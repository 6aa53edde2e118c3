"""The names that runs are given: two words a person can say and remember."""

from __future__ import annotations

import os

_ADJECTIVES = """
    able airy amber ample azure blithe bold brave bright brisk calm candid civil clear clever cool
    coral crisp deft eager early fair fleet fond frank free fresh gentle glad golden grand green
    handy happy hardy hazel keen kind light lively loyal lucid mellow merry mild neat nimble noble
    olive patient plain proud quick quiet rapid ready robust rosy royal sage silver smart snug
    sober solid sound spry steady still sturdy sunny sure tidy trim true upbeat vivid warm
"""
_ANIMALS = """
    ant badger bat bear beaver bee bison boar bream camel carp cat civet cod condor coot crab crane
    crow deer dingo dove duck eagle eel egret elk falcon ferret finch fox frog gecko gibbon gnu
    goat goose grouse gull hare hawk heron hippo horse ibex ibis jackal jay kestrel kiwi koala
    lark lemur lion llama lynx magpie marten mole moose moth newt ocelot okapi orca oryx osprey
    otter owl ox panda parrot perch pike plover puffin quail rabbit raven rhino robin rook salmon
    seal shark sheep shrew skua sloth snail sparrow squid stork swan swift tapir tern tiger toad
    trout turtle viper vole walrus wasp whale wolf wombat wren yak zebra
"""


def two_words() -> str:
    """Such as ``brisk-heron``; another one each time."""
    return f"{_any(_ADJECTIVES.split())}-{_any(_ANIMALS.split())}"


def _any(words: list[str]) -> str:
    # Not the module 'random', which a job may have seeded; 'secrets' takes long to import.
    return words[int.from_bytes(os.urandom(4)) % len(words)]
