"""Modules on the device "meta": made without values, loaded or initialised later."""

from __future__ import annotations

import copy
import pickle

import pytest

import adjoint as ad
from adjoint import nn


def meta_net() -> nn.Sequential:
    with ad.device("meta"):
        return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


def test_a_module_made_on_meta_has_shapes_and_no_values():
    net = meta_net()
    assert all(p.is_meta and p.device == ad.device("meta") for p in net.parameters())
    assert [tuple(p.shape) for p in net.parameters()] == [(3, 2), (3,), (3,), (3,), (1, 3), (1,)]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in net.parameters())
    assert net[1].num_batches_tracked.is_meta
    assert "device='meta'" in repr(net[0].weight)


def test_nothing_is_drawn_for_it():
    ad.manual_seed(3)
    first = ad.rand(1)
    ad.manual_seed(3)
    meta_net()
    with ad.device("meta"):
        ad.rand(5)
        ad.randn_like(ad.empty(2))
    assert ad.equal(ad.rand(1), first)


def test_assigned_values_make_it_an_ordinary_module():
    source = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).eval()
    net = meta_net().eval()
    net.load_state_dict(source.state_dict(), assign=True)
    assert all(type(p) is nn.Parameter for p in net.parameters())
    x = ad.ones(4, 2)
    assert ad.equal(net(x), source(x))


def test_to_empty_gives_it_memory():
    net = meta_net().to_empty(device="cpu")
    assert not any(t.is_meta for t in (*net.parameters(), *net.buffers()))
    for layer in (net[0], net[1], net[2]):
        layer.reset_parameters()
    assert net(ad.ones(4, 2)).shape == (4, 1)


def test_values_that_are_not_there_are_refused():
    net = meta_net()
    with pytest.raises(NotImplementedError, match="to_empty"):
        net.to("cpu")
    weight = net[0].weight
    for read in (weight.tolist, lambda: weight[0, 0].item(), lambda: bool((weight == 0).all())):
        with pytest.raises(NotImplementedError, match="no data"):
            read()
    with pytest.raises(RuntimeError, match="two devices"):
        net(ad.ones(4, 2))
    with pytest.raises(NotImplementedError, match="no data"):
        ad.ones(3, 2).copy_(weight)


def test_shapes_flow_through_it():
    net = meta_net()
    out = net(ad.empty(4, 2, device="meta"))
    assert out.is_meta
    assert out.shape == (4, 1)


def test_copying_values_into_it_warns():
    net = meta_net()
    state = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).state_dict()
    with pytest.warns(UserWarning, match="which is a no-op"):
        net.load_state_dict(state)
    assert net[0].weight.is_meta


def test_a_module_goes_to_meta_and_its_stand_ins_are_called():
    net = nn.Linear(2, 3)
    values = {name: p.detach() for name, p in net.named_parameters()}
    base = copy.deepcopy(net).to("meta")
    assert base.weight.is_meta
    out = ad.func.functional_call(base, values, (ad.ones(1, 2),))
    assert ad.equal(out, net(ad.ones(1, 2)))


def test_copies_and_pickles_have_no_values_either():
    weight = nn.Linear(2, 3, device="meta").weight
    for again in (copy.deepcopy(weight), pickle.loads(pickle.dumps(weight))):
        assert again.is_meta
        assert isinstance(again, nn.Parameter)
        assert again.requires_grad
        assert again.shape == (3, 2)


def test_the_block_is_left_again():
    with ad.device("meta"):
        with ad.device("cpu"):
            assert not ad.zeros(2).is_meta
        assert ad.zeros(2).is_meta
        assert not ad.zeros(2, device="cpu").is_meta
        assert ad.tensor([1.0]).is_meta
        assert ad.arange(3).shape == (3,)
        assert ad.full((2, 2), 1).dtype == ad.int64
    assert not ad.zeros(2).is_meta
    assert ad.zeros(2, device="meta").to(ad.float64).dtype == ad.float64
    assert ad.ones(2).to("meta").is_meta


@pytest.mark.parametrize(
    "asks",
    [
        lambda x, mask, index: x[mask],
        lambda x, mask, index: ad.argwhere(x),
        lambda x, mask, index: ad.repeat_interleave(x, index),
        lambda x, mask, index: ad.unique(x),
        lambda x, mask, index: ad.masked_select(x, mask),
        lambda x, mask, index: ad.where(mask),
        lambda x, mask, index: ad.equal(x, x),
        lambda x, mask, index: ad.bincount(index),
    ],
)
def test_values_that_were_never_written_do_not_decide(asks):
    x, mask, index = (ad.empty(4, dtype=d, device="meta") for d in (ad.float32, ad.bool, ad.int64))
    with pytest.raises(NotImplementedError, match="no data"):
        asks(x, mask, index)
    assert x[index].shape == (4,)
