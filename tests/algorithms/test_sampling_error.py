"""What the engine sampled is what the update scores, and a trainer cannot cut an iteration short."""

from __future__ import annotations

import pytest
from pytorch_lightning import Callback

from acrl.algorithms import DAPO, GRPO, PPO, RLModule
from acrl.callbacks.health import SAMPLING_ERROR
from acrl.errors import ConfigError
from acrl.rollout import engine
from acrl.spec import BatchPlan, Sampling


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("kind", [PPO, GRPO, DAPO])
def test_sampling_and_scoring_agree(kind: type[RLModule], temperature: float, build, iterate) -> None:
    module = iterate(build(kind, sampling=Sampling(temperature=temperature, max_response_length=12)))
    assert module.row["policy/sampling_error"] < 1e-4


def test_an_engine_of_another_temperature_is_seen(build, iterate, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = engine.at_least_float32
    monkeypatch.setattr(engine, "at_least_float32", lambda logits: scale(logits) / 0.3)
    module = iterate(build(GRPO))
    assert module.row["policy/first_ratio_error"] < 1e-4  # scoring and training still agree
    assert module.row["policy/sampling_error"] > SAMPLING_ERROR


class AccumulateMore(Callback):
    """A callback that thinks it owns the accumulation."""

    def on_train_epoch_start(self, trainer, module):
        trainer.accumulate_grad_batches = 8


def test_a_callback_that_changes_the_accumulation_is_refused(build, iterate) -> None:
    batch = BatchPlan(completions_per_iteration=16, group_size=4, micro_batch_size=2)
    with pytest.raises(ConfigError, match="cuts iterations short"):
        iterate(build(GRPO, batch=batch), callbacks=[AccumulateMore()])


def test_fewer_train_batches_are_refused(build, iterate) -> None:
    batch = BatchPlan(completions_per_iteration=16, group_size=4, micro_batch_size=2)
    with pytest.raises(ConfigError, match="trained on 1 micro-batches"):
        iterate(build(GRPO, batch=batch), limit_train_batches=1)
