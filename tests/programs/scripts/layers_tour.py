import torch
import torch.nn as nn

torch.manual_seed(0)
x1 = torch.randn(2, 4, 10)
x2 = torch.randn(2, 4, 6, 6)
x3 = torch.randn(2, 4, 4, 4, 4)
mods = [
    (nn.Conv1d(4, 6, 3, 2, 1, 2, 2), x1),
    (nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), padding_mode="reflect"), x2),
    (nn.Conv3d(4, 2, 2), x3),
    (nn.ConvTranspose1d(4, 2, 3, 2, 1, 1), x1),
    (nn.ConvTranspose2d(4, 2, 3, 2, 1, 1, groups=2, dilation=2), x2),
    (nn.ConvTranspose3d(4, 2, 2, 2), x3),
    (nn.LazyConv2d(3, 2), x2),
    (nn.LazyLinear(3), x1),
    (nn.Unfold(2, stride=2), x2),
    (nn.Fold((4, 4), 2, stride=2), torch.randn(2, 4 * 4, 4)),
    (nn.MaxPool1d(2), x1),
    (nn.MaxPool2d(3, 2, 1, ceil_mode=True), x2),
    (nn.MaxPool3d(2), x3),
    (nn.AvgPool1d(3, 2, 1, count_include_pad=False), x1),
    (nn.AvgPool2d(2, divisor_override=3), x2),
    (nn.AvgPool3d(2), x3),
    (nn.LPPool1d(2, 3), x1),
    (nn.LPPool2d(2, 2), x2),
    (nn.AdaptiveMaxPool1d(3), x1),
    (nn.AdaptiveMaxPool2d((3, None)), x2),
    (nn.AdaptiveMaxPool3d(2), x3),
    (nn.AdaptiveAvgPool1d(3), x1),
    (nn.AdaptiveAvgPool2d(4), x2),
    (nn.AdaptiveAvgPool3d((1, 2, 3)), x3),
    (nn.ReflectionPad1d(2), x1),
    (nn.ReflectionPad2d((1, 2, 0, 1)), x2),
    (nn.ReplicationPad3d(1), x3),
    (nn.ZeroPad2d(1), x2),
    (nn.ConstantPad1d(2, 3.0), x1),
    (nn.CircularPad2d(1), x2),
    (nn.ELU(0.5), x1),
    (nn.Hardshrink(), x1),
    (nn.Hardsigmoid(), x1),
    (nn.Hardtanh(-0.5, 0.5), x1),
    (nn.Hardswish(), x1),
    (nn.LeakyReLU(0.1), x1),
    (nn.LogSigmoid(), x1),
    (nn.PReLU(4), x1),
    (nn.ReLU6(), x1),
    (nn.SELU(), x1),
    (nn.CELU(), x1),
    (nn.GELU(), x1),
    (nn.GELU("tanh"), x1),
    (nn.SiLU(), x1),
    (nn.Mish(), x1),
    (nn.Softplus(2, 10), x1),
    (nn.Softshrink(), x1),
    (nn.Softsign(), x1),
    (nn.Tanhshrink(), x1),
    (nn.Threshold(0.1, 20), x1),
    (nn.GLU(1), x1),
    (nn.Softmin(1), x1),
    (nn.Softmax2d(), x2),
    (nn.LogSoftmax(1), x1),
    (nn.BatchNorm1d(4), x1),
    (nn.BatchNorm2d(4, momentum=None, affine=False), x2),
    (nn.BatchNorm3d(4, track_running_stats=False), x3),
    (nn.InstanceNorm1d(4, affine=True, track_running_stats=True), x1),
    (nn.InstanceNorm2d(4), x2),
    (nn.GroupNorm(2, 4), x2),
    (nn.LayerNorm((6, 6), elementwise_affine=False), x2),
    (nn.LayerNorm(10, bias=False), x1),
    (nn.RMSNorm(10), x1),
    (nn.LocalResponseNorm(2), x2),
    (nn.RNN(10, 3, 2, nonlinearity="relu", batch_first=True), x1),
    (nn.LSTM(10, 5, 1, bidirectional=True, proj_size=2), x1),
    (nn.GRU(10, 3, bias=False), x1),
    (nn.RNNCell(4, 3), x1[:, :, 0]),
    (nn.LSTMCell(4, 3), x1[:, :, 0]),
    (nn.GRUCell(4, 3), x1[:, :, 0]),
    (
        nn.TransformerEncoderLayer(
            10, 2, 16, 0.0, batch_first=True, norm_first=True, activation="gelu"
        ),
        x1,
    ),
    (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(10, 2, 16, 0.0), 2, norm=nn.LayerNorm(10)),
        x1,
    ),
    (nn.Dropout(0.3), x1),
    (nn.Dropout2d(0.3), x2),
    (nn.Dropout3d(0.3), x3),
    (nn.AlphaDropout(0.3), x1),
    (nn.FeatureAlphaDropout(0.3), x1),
    (nn.PixelShuffle(2), x2),
    (nn.PixelUnshuffle(2), x2),
    (nn.ChannelShuffle(2), x2),
    (nn.Upsample(scale_factor=2, mode="bicubic", align_corners=True), x2),
    (nn.UpsamplingNearest2d(size=(9, 9)), x2),
    (nn.UpsamplingBilinear2d(scale_factor=2), x2),
    (nn.Upsample(size=5, mode="trilinear"), x3),
    (nn.Flatten(1, 2), x2),
    (nn.Unflatten(1, (2, 2)), x2),
    (nn.Identity(3), x1),
    (nn.RReLU(0.1, 0.3), x1),
    (nn.MaxUnpool2d(2, 2), None),
    (nn.FractionalMaxPool2d(2, output_ratio=0.5), x2),
]
for m, x in mods:
    if x is None:
        p, i = nn.MaxPool2d(2, 2, return_indices=True)(x2)
        o = m(p, i)
    else:
        x = x.clone().requires_grad_()
        o = m(x)
        o = o[0] if isinstance(o, tuple) else o
        o.square().sum().backward()
        g = x.grad.abs().sum()
    print(
        m,
        tuple(o.shape),
        f"{o.double().sum().item():.3f} {g.item():.3f}",
        [tuple(q.shape) for q in m.parameters()],
    )
bil = nn.Bilinear(4, 5, 3)
print(bil, bil(torch.ones(2, 4), torch.ones(2, 5)))
cos = nn.CosineSimilarity(1)
print(cos(x1, x1.flip(0)).sum(), nn.PairwiseDistance(3)(x1[0], x1[1]))
a = torch.randn(6, 4)
b = torch.randn(6, 4)
t = torch.randint(0, 4, (6,))
pm = torch.sign(torch.randn(6))
for loss, args in (
    (nn.L1Loss(), (a, b)),
    (nn.MSELoss(reduction="sum"), (a, b)),
    (nn.CrossEntropyLoss(torch.rand(4), ignore_index=2, label_smoothing=0.1), (a, t)),
    (nn.CrossEntropyLoss(), (a, b.softmax(1))),
    (nn.NLLLoss(), (a.log_softmax(1), t)),
    (nn.PoissonNLLLoss(full=True), (a, b.abs())),
    (nn.GaussianNLLLoss(), (a, b, b.abs() + 0.1)),
    (nn.KLDivLoss(reduction="batchmean", log_target=True), (a.log_softmax(1), b.log_softmax(1))),
    (nn.BCELoss(), (a.sigmoid(), b.sigmoid())),
    (nn.BCEWithLogitsLoss(pos_weight=torch.ones(4) * 2), (a, b.sigmoid())),
    (nn.MarginRankingLoss(0.5), (a[:, 0], b[:, 0], pm)),
    (nn.HingeEmbeddingLoss(), (a[:, 0], pm)),
    (nn.MultiLabelMarginLoss(), (a, torch.tensor([[1, 2, -1, 0]] * 6))),
    (nn.HuberLoss(delta=0.5), (a, b)),
    (nn.SmoothL1Loss(beta=0.3), (a, b)),
    (nn.SoftMarginLoss(), (a[:, 0], pm)),
    (nn.MultiLabelSoftMarginLoss(), (a, (b > 0).float())),
    (nn.CosineEmbeddingLoss(0.2), (a, b, pm)),
    (nn.MultiMarginLoss(p=2, margin=0.5), (a, t)),
    (nn.TripletMarginLoss(swap=True), (a, b, a.flip(0))),
    (
        nn.CTCLoss(),
        (
            torch.randn(8, 2, 5).log_softmax(2),
            torch.tensor([[1, 2, 3], [2, 2, 4]]),
            torch.tensor([8, 7]),
            torch.tensor([3, 2]),
        ),
    ),
):
    print(loss, loss(*args))
ad = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6])
print(ad(a, torch.randint(0, 10, (6,))).loss, ad.log_prob(a).shape, ad.predict(a))
mha = nn.MultiheadAttention(
    8, 2, kdim=4, vdim=6, batch_first=True, add_bias_kv=True, add_zero_attn=True
)
o, w = mha(
    torch.randn(2, 3, 8),
    torch.randn(2, 5, 4),
    torch.randn(2, 5, 6),
    key_padding_mask=torch.tensor([[False] * 4 + [True]] * 2),
    average_attn_weights=False,
)
print(o.shape, w.shape, w.sum(-1)[0, 0])
tr = nn.Transformer(8, 2, 1, 1, 16, 0.0)
print(
    tr(
        torch.randn(3, 2, 8),
        torch.randn(4, 2, 8),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(4),
    ).shape,
    tr,
)
e = nn.Embedding(10, 3, padding_idx=0, max_norm=1.0, scale_grad_by_freq=True)
print(e(torch.tensor([[0, 1], [2, 1]])), e)
print(
    nn.Embedding.from_pretrained(torch.eye(3))(torch.tensor([1])),
    nn.EmbeddingBag(5, 2, mode="max", include_last_offset=True)(
        torch.tensor([0, 1, 2, 3]), torch.tensor([0, 2, 4])
    ),
)
pl = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1))])
pd = nn.ParameterDict({"a": torch.ones(1)})
print(
    pl,
    pd,
    nn.ModuleDict({"r": nn.ReLU(), "l": nn.Linear(1, 1)}),
    nn.ModuleList([nn.ReLU()] * 2),
    nn.Sequential(nn.ReLU(), nn.Linear(2, 2))[1:],
)
