"""Length penalties, added to the reward before any advantage is computed."""

from torch import Tensor


def soft_overlong_penalty(lengths: Tensor, max_response_length: int, buffer: int, coef: float = 1.0) -> Tensor:
    """Penalty of each response [N], from 0 down to −coef over the last `buffer` tokens before the cap.

    Formula: with L the cap and B the buffer, coef · clip(((L − B) − l) / B, −1, 0): 0 up to L − B, −coef from L on.
    Source: DAPO (2503.14476) Eq. 13 (L_max = 20,480, L_cache = 4,096).
    Shapes: lengths [N], in tokens. Raises ValueError unless 0 < buffer ≤ max_response_length.
    """
    if not 0 < buffer <= max_response_length:
        raise ValueError(f"buffer is {buffer!r}; it must lie in 1..{max_response_length} (max_response_length)")
    return coef * ((max_response_length - buffer - lengths) / buffer).clamp(-1, 0)
