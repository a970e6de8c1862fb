"""A tokenizer with one token a character, for models small enough to train in a minute."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"  # ids 0, 1, 2


def character_tokenizer(alphabet: str, max_length: int) -> "PreTrainedTokenizerFast":
    """A fast tokenizer over the characters of `alphabet`, ids in its order from 3 on; pad 0, EOS 1, unknown 2.

    It pads on the left, adds no token of its own, and decodes to exactly the text that was encoded, without spaces
    between tokens. `max_length` is `model_max_length`, in tokens. ValueError if a character is in `alphabet` twice.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    if len(set(alphabet)) < len(alphabet):
        raise ValueError(f"tokenizer: alphabet {alphabet!r} holds a character twice; list each one once")
    vocabulary = {token: index for index, token in enumerate([PAD, EOS, UNKNOWN, *alphabet])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        padding_side="left",
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
    )
