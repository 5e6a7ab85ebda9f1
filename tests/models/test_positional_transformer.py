"""The model: equal to fairseq's where it must be, deterministic, step by step as in parallel."""

import pickle
import sys
from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, build_model

from tests.support import ENCODINGS, PAD, TINY, ToyTask, batch, build

SIZES = ("", "_tiny", "_iwslt_de_en", "_wmt_en_de", "_vaswani_wmt_en_de_big")
LENGTHS, TARGET_LENGTHS = [9, 3, 6], [7, 5, 2]


def variants():
    """Every encoding, and the options that change what happens at inference."""
    yield from ((encoding, {}) for encoding in ENCODINGS)
    yield "cape", {"source_scale": "1.3", "cape_mean_normalize": True}
    yield "cape", {"source_bos": "off", "source_scale": "0.8"}
    yield "sinpos", {"source_bos": "on"}
    yield "sinpos", {"position_layers": "all"}
    yield "abspos", {"position_layers": "all"}
    yield "relpos", {"relpos_max_distance": 2, "relpos_layers": "first", "relpos_terms": "keys"}
    yield "relpos", {"relpos_max_distance": 3, "source_bos": "on"}
    yield "rope", {"source_bos": "on", "source_scale": "1.3"}
    yield "rope", {"rope_attention": "self+cross", "source_bos": "on", "source_scale": "1.3"}
    yield "fire", {"source_bos": "on", "source_scale": "1.3", "fire_threshold": 4.0}
    yield "t5", {"source_bos": "on", "t5_buckets": 8, "t5_max_distance": 5}
    yield "abspos", {"position_augmentation": "shape", "shape_max_shift": 20}
    for encoding in ("sinpos", "rope", "alibi", "t5", "fire", "kerple"):
        yield encoding, {"position_augmentation": "randpos", "randpos_range": 30}
    yield (
        "abspos",
        {"source_bos": "on", "encoder_normalize_before": True, "decoder_normalize_before": True},
    )


def targets(left: bool) -> torch.Tensor:
    return batch(TARGET_LENGTHS, left, seed=5, end=False)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("left", [True, False])
def test_equals_fairseqs_transformer(learned, training, left):
    """Forward, gradients and alignments, with fairseq's own parameters, for sinpos and abspos."""
    ours = build("abspos_transformer_tiny" if learned else "sinpos_transformer_tiny", dropout=0.0)
    theirs = build(
        "transformer", seed=2, dropout=0.0, encoder_learned_pos=learned, decoder_learned_pos=learned
    )
    ours.load_state_dict(theirs.state_dict(), strict=True)
    source, target = batch(LENGTHS, left), targets(left=False)
    real, results = target.ne(PAD), []
    for model in (theirs, ours):
        model.train(training)
        scores, extra = model(source, None, target)
        scores[real].square().mean().backward()
        results.append(
            (scores[real], extra["attn"][0], {n: p.grad for n, p in model.named_parameters()})
        )
    (scores, attention, gradients), (our_scores, our_attention, our_gradients) = results
    assert (scores - our_scores).abs().max() < 1e-5
    if not training:  # weights that nobody asked for are not computed in training
        assert (attention - our_attention)[real].abs().max() < 1e-6
    for name, gradient in gradients.items():
        assert (gradient - our_gradients[name]).abs().max() < 1e-5 * (1 + gradient.abs().max()), (
            name
        )


def test_same_seed_gives_fairseqs_initial_parameters():
    theirs, ours = build("transformer"), build("sinpos_transformer_tiny")
    for name, value in theirs.named_parameters():
        assert torch.equal(value, ours.state_dict()[name]), name


@pytest.mark.parametrize("encoding", ["cape", "shape"])
@pytest.mark.parametrize("training", [False, True])
def test_zero_augmentation_is_sinpos(encoding, training):
    options = {
        "cape": {"cape_global_shift": 0.0, "cape_local_shift": 0.0, "source_bos": "off"},
        "shape": {"shape_max_shift": 0},
    }[encoding]
    augmented = build(f"{encoding}_transformer_tiny", dropout=0.0, **options).train(training)
    plain = build("sinpos_transformer_tiny", dropout=0.0).train(training)
    source, target = batch(LENGTHS, True), targets(False)
    assert (augmented(source, None, target)[0] - plain(source, None, target)[0]).abs().max() < 1e-6


@pytest.mark.parametrize(("encoding", "options"), variants())
@pytest.mark.parametrize(("left", "left_target"), [(True, False), (False, True), (True, True)])
def test_steps_equal_the_parallel_pass(encoding, options, left, left_target):
    model = build(f"{encoding}_transformer_tiny", **options)
    source, target = batch(LENGTHS, left), targets(left_target)
    parallel, extra = model(source, None, target)
    encoder_out, state = model.encoder(source), {}
    for step in range(target.size(1)):
        scores, step_extra = model.decoder(target[:, : step + 1], encoder_out, state)
        rows = target[:, step].ne(PAD)
        assert (scores[rows, 0] - parallel[rows, step]).abs().max() < 1e-5
        assert (step_extra["attn"][0][rows, 0] - extra["attn"][0][rows, step]).abs().max() < 1e-5


@pytest.mark.parametrize(("encoding", "options"), variants())
@pytest.mark.parametrize("left", [True, False])
def test_a_batch_equals_its_sentences_one_by_one(encoding, options, left):
    """Padding on either side changes nothing, nor does where the begin-of-sentence token lands."""
    model = build(f"{encoding}_transformer_tiny", **options)
    source, target = batch(LENGTHS, left), targets(left)
    scores, extra = model(source, None, target)
    for row in range(len(LENGTHS)):
        kept, prefix = source[row].ne(PAD), target[row].ne(PAD)
        alone, alone_extra = model(source[row : row + 1, kept], None, target[row : row + 1, prefix])
        assert (scores[row, prefix] - alone[0]).abs().max() < 1e-5
        attention = extra["attn"][0][row][prefix]
        assert (attention[:, kept] - alone_extra["attn"][0][0]).abs().max() < 1e-6
        assert (attention[:, ~kept] == 0).all()


def test_begin_of_sentence_is_a_token_before_the_source():
    """source_bos on equals source_bos off with the token put in by hand."""
    options = {"source_scale": "1.2"}
    model = build("cape_transformer_tiny", **options)
    without = build("cape_transformer_tiny", source_bos="off", **options)
    source, target = batch([6, 6], True), targets(False)[:2]
    by_hand = torch.cat([torch.zeros(2, 1, dtype=torch.long), source], dim=1)
    scores, extra = model(source, None, target)
    expected, expected_extra = without(by_hand, None, target)
    assert torch.equal(scores, expected)
    # The alignment is over the tokens that the caller gave.
    assert torch.equal(extra["attn"][0], expected_extra["attn"][0][:, :, 1:])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_evaluation_is_deterministic_and_training_is_not(encoding):
    model = build(f"{encoding}_transformer_tiny", dropout=0.0)
    source, target = batch(LENGTHS, True), targets(False)
    assert torch.equal(model(source, None, target)[0], model(source, None, target)[0])
    model.train()
    same = torch.equal(model(source, None, target)[0], model(source, None, target)[0])
    assert same == (encoding not in ("cape", "shape"))


@pytest.mark.parametrize("encoding", [encoding for encoding in ENCODINGS if encoding != "abspos"])
def test_no_limit_on_length(encoding):
    model = build(f"{encoding}_transformer_tiny")
    assert min(model.max_positions()) >= 10_000_000
    scores, _ = model(batch([1100, 5], True), None, batch([1050, 4], False))  # fairseq's is 1,024
    assert scores.isfinite().all()


def test_learned_positions_end_with_a_clear_error():
    model = build(
        "abspos_transformer_tiny", max_source_positions=8, max_target_positions=6, source_bos="on"
    )
    assert model.max_positions() == (8, 6)
    model(batch([8, 2], True), None, batch([6, 2], False))
    wide = torch.cat([torch.full((1, 20), PAD), batch([8], True)], dim=1)  # padding is not length
    model(wide, None, batch([6], False))
    with pytest.raises(
        ValueError, match=r"10 tokens, but learned positions end at 9: .*--max-source-positions"
    ):
        model(batch([9], True), None, batch([3], False))
    with pytest.raises(
        ValueError, match=r"7 tokens, but learned positions end at 6: .*--max-target-positions"
    ):
        model(batch([3], True), None, batch([7], False))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_checkpointed_activations_change_nothing(encoding):
    source, target = batch(LENGTHS, True), targets(False)
    gradients = []
    for checkpointed in (False, True):
        model = build(
            f"{encoding}_transformer_tiny", checkpoint_activations=checkpointed, dropout=0.1
        ).train()
        torch.manual_seed(7)
        model(source, None, target)[0].square().mean().backward()
        gradients.append([p.grad for p in model.parameters()])
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, atol=1e-7)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.15), (torch.float16, 0.02)])
def test_low_precision(encoding, dtype, tolerance):
    """Half-precision models: positions are as exact as in float32, the rest is rounded."""
    model = build(f"{encoding}_transformer_tiny")
    source, target = batch([600, 300], True), batch([50, 9], False)
    expected = model(source, None, target)[0]
    places = model.encoder.positions.begin(source).positions
    (entering, *_) = model.encoder(source, return_all_hiddens=True)["encoder_states"]
    low = model.to(dtype)
    assert torch.equal(low.encoder.positions.begin(source).positions, places)
    (rounded, *_) = low.encoder(source, return_all_hiddens=True)["encoder_states"]
    assert (rounded.float() - entering).abs().max() < 0.02 * entering.abs().max()
    scores = low(source, None, target)[0]
    assert scores.dtype == dtype
    assert (scores.float() - expected)[
        target.ne(PAD)
    ].abs().max() < tolerance * expected.abs().max()
    low.train()(source, None, target)[0].float().mean().backward()
    assert all(p.grad.isfinite().all() for p in low.parameters())


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("suffix", SIZES)
def test_every_architecture_has_fairseqs_size(encoding, suffix):
    ours, theirs = Namespace(), Namespace(**(TINY if suffix == "_tiny" else {}))
    ARCH_CONFIG_REGISTRY[f"{encoding}_transformer{suffix}"](ours)
    ARCH_CONFIG_REGISTRY["transformer" if suffix == "_tiny" else f"transformer{suffix}"](theirs)
    assert {k: v for k, v in vars(ours).items() if k in vars(theirs)} == vars(theirs)
    assert ours.position_encoding == encoding
    assert ours.source_bos == ("on" if encoding == "cape" else "off")
    assert (
        ARCH_MODEL_REGISTRY[f"{encoding}_transformer{suffix}"].__name__ == "PositionalTransformer"
    )


def test_dropout_can_be_retained_at_inference():
    for modules in (None, ["MultiheadAttention"]):
        model = build("sinpos_transformer_tiny", dropout=0.0, attention_dropout=0.5)
        source, target = batch(LENGTHS, True), targets(False)
        assert torch.equal(model(source, None, target)[0], model(source, None, target)[0])
        model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=modules)
        assert not torch.equal(model(source, None, target)[0], model(source, None, target)[0])


def test_a_pruned_model_is_stored_with_the_layers_it_has():
    args = Namespace(arch="cape_transformer_tiny", source_scale="1", encoder_layers_to_keep="0,2")
    model = build_model(args, ToyTask())
    assert len(model.encoder.layers) == args.encoder_layers == 2


def test_alignments_are_returned_in_training_where_the_task_has_them(monkeypatch):
    target = targets(False)
    assert build("cape_transformer_tiny").train()(batch(LENGTHS, True), None, target)[1][
        "attn"
    ] == [None]
    for name in ("args", "cfg"):  # older tasks have the former
        monkeypatch.setattr(ToyTask, name, Namespace(load_alignments=True), raising=False)
        model = build("cape_transformer_tiny").train()
        assert model(batch(LENGTHS, True), None, target)[1]["attn"][0].shape == (3, 7, 9)
        monkeypatch.delattr(ToyTask, name)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_model_can_be_pickled(encoding):
    model = build(f"{encoding}_transformer_tiny")
    copy = pickle.loads(pickle.dumps(model))
    given = batch(LENGTHS, True), None, targets(False)
    assert torch.equal(model(*given)[0], copy(*given)[0])


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize(("encoding", "learned"), [("sinpos", False), ("abspos", True)])
def test_a_side_without_layers_has_positions_as_in_fairseq(side, encoding, learned):
    if side == "encoder" and sys.version_info < (3, 11):
        pytest.skip("fairseq 0.12.2 asks the first layer of an encoder")
    options = {f"{side}_layers": 0}
    ours = build(f"{encoding}_transformer_tiny", **options)
    learned_pos = {f"{s}_learned_pos": learned for s in ("encoder", "decoder")}
    theirs = build("transformer", **options, **learned_pos)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    given = batch(LENGTHS, True), None, targets(False)
    difference = (ours(*given)[0] - theirs(*given)[0])[given[2].ne(PAD)]
    assert difference.abs().max() < 1e-5


def test_trajectories_need_layers():
    with pytest.raises(ValueError, match="--encoder-layers is 0, but it must be at least 1 for"):
        build("floater_transformer_tiny", encoder_layers=0)


def test_all_hidden_states_are_returned():
    model = build("cape_transformer_tiny")
    out = model.encoder(batch(LENGTHS, True), return_all_hiddens=True)
    assert len(out["encoder_states"]) == 4
    assert torch.equal(out["encoder_states"][-1], out["encoder_out"][0])
    assert out["src_lengths"][0].flatten().tolist() == [10, 4, 7]
    _, extra = model.decoder(targets(False), out)
    assert len(extra["inner_states"]) == 4


def test_embeddings_may_start_smaller():
    plain, small = (
        build("sinpos_transformer_tiny", embedding_init_scale=scale) for scale in (1.0, 0.3)
    )
    for name, value in plain.state_dict().items():
        scale = 0.3 if "embed_tokens" in name or "output_projection" in name else 1.0
        assert torch.allclose(small.state_dict()[name], value * scale), name
