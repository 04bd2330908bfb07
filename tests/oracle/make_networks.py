#!/usr/bin/python3
"""Writes tests/golden_networks/{bilstm,encoder_decoder}/: the networks besides the transformer, by torch.nn.LSTM and
torch.nn.Transformer themselves. Deterministic; run again at will.

Each case holds config.json, model.safetensors (F32), and of three texts of different length
    run.json              tokens, targets, the learning rate and number of plain gradient descent's steps
    expected.safetensors  computed in float64, stored as F32: logits, losses [steps], grad.<name> before the first step,
                          after.<name> behind the last
The sentences go through torch one by one. torch.nn.LSTM adds two biases where the paper has one: the second is zero and
stays it."""
import json
import os
import sys

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import oracle  # noqa: E402

WORDS, SIZE, STEPS, RATE = 11, 5, 10, 0.5
LENGTHS = (6, 1, 9)


class Bilstm(nn.Module):
    def __init__(self, h, layers, labels):
        super().__init__()
        self.h, self.layers = h, layers
        self.lstm = nn.LSTM(SIZE, h, layers, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * h, labels)
        for name, p in self.lstm.named_parameters():
            if name.startswith("bias_hh"):
                p.requires_grad_(False).zero_()

    def forward(self, x):
        return self.out(self.lstm(x[None])[0][0])

    def export(self, get):
        """Our tensors of what get(parameter) gives."""
        out = {"classifier.weight": get(self.out.weight), "classifier.bias": get(self.out.bias)}
        for l in range(self.layers):
            both = [{n: get(getattr(self.lstm, f"{n}_l{l}{way}")) for n in ("weight_ih", "weight_hh", "bias_ih")}
                    for way in ("", "_reverse")]
            to = f"model.layers.{l}."
            out[to + "input.weight"] = torch.cat([d["weight_ih"] for d in both])
            out[to + "input.bias"] = torch.cat([d["bias_ih"] for d in both])
            out[to + "recurrent.weight"] = torch.stack([d["weight_hh"] for d in both])
        return out


class EncoderDecoder(nn.Module):
    def __init__(self, d, heads, encoder, decoder, width, labels):
        super().__init__()
        self.d, self.counts = d, {"encoder": encoder, "decoder": decoder}
        self.input = nn.Linear(SIZE, d)
        self.body = nn.Transformer(d, heads, encoder, decoder, width, dropout=0.0, batch_first=True)
        self.head = nn.ModuleList([nn.Linear(d, d // 2), nn.Linear(d // 2, d // 4), nn.Linear(d // 4, labels)])

    def waves(self, n):
        i = torch.arange(self.d // 2)
        angle = torch.arange(n)[:, None] / 10000 ** (2 * i / self.d)
        return torch.stack((angle.sin(), angle.cos()), 2).flatten(1)

    def forward(self, x):
        e = (self.input(x) + self.waves(len(x)))[None]
        mask = nn.Transformer.generate_square_subsequent_mask(len(x)).to(e.dtype)
        y = self.body(e, e, tgt_mask=mask)[0].mean(0)
        a, b, c = self.head
        return c(b(a(y).relu()).relu())[None]

    def export(self, get):
        out = {"model.input.weight": get(self.input.weight), "model.input.bias": get(self.input.bias)}

        def put(name, module):
            out[name + ".weight"], out[name + ".bias"] = get(module.weight), get(module.bias)

        def put_attention(name, m):
            parts = zip("qkv", get(m.in_proj_weight).chunk(3), get(m.in_proj_bias).chunk(3))
            for p, w, b in parts:
                out[f"{name}.{p}_proj.weight"], out[f"{name}.{p}_proj.bias"] = w, b
            put(name + ".o_proj", m.out_proj)

        for half, stack in (("encoder", self.body.encoder), ("decoder", self.body.decoder)):
            put(f"model.{half}.norm", stack.norm)
            for l, layer in enumerate(stack.layers):
                to = f"model.{half}.layers.{l}."
                put_attention(to + "self_attn", layer.self_attn)
                put(to + "post_attention_layernorm", layer.norm1)
                if half == "decoder":
                    put_attention(to + "cross_attn", layer.multihead_attn)
                    put(to + "post_cross_attention_layernorm", layer.norm2)
                put(to + "post_feedforward_layernorm", layer.norm3 if half == "decoder" else layer.norm2)
                put(to + "mlp.up_proj", layer.linear1)
                put(to + "mlp.down_proj", layer.linear2)
        for k, linear in enumerate(self.head):
            put(f"head.{k}", linear)
        return out


COMMON = {"model_type": "noised", "vocab_size": WORDS, "max_position_embeddings": 16,
          "input": {"kind": "vectors", "size": SIZE}, "id2label": {"0": "a", "1": "b", "2": "c"}}


def cases():
    yield "bilstm", {**COMMON, "network": "bilstm", "task": "token-classification", "hidden_size": 4,
                     "num_hidden_layers": 2}, Bilstm(4, 2, 3)
    yield "encoder_decoder", {
        **COMMON, "network": "encoder-decoder", "task": "text-classification", "pool": "mean", "hidden_size": 12,
        "num_hidden_layers": 2, "num_decoder_layers": 1, "num_attention_heads": 2, "head_dim": 6, "norm": "layernorm",
        "norm_eps": 1e-5, "position": "sinusoidal", "bias": True, "causal": False, "block": {"norm": "post"},
        "mlp": {"activation": "relu", "intermediate_size": 10}, "attention": {"kind": "mha"},
    }, EncoderDecoder(12, 2, 2, 1, 10, 3)


def main():
    for name, config, net in cases():
        net.double()
        vectors = torch.randn(WORDS, SIZE, dtype=torch.float64).float().double()
        with torch.no_grad():
            for key, p in net.named_parameters():
                if p.requires_grad:  # nothing at a special value, all of it exact in float32
                    p.add_(0.1 * torch.randn_like(p)).copy_(p.float().double())
        words = [torch.randint(WORDS, (n,)) for n in LENGTHS]
        per_word = config["task"] == "token-classification"
        targets = torch.randint(3, (sum(LENGTHS) if per_word else len(LENGTHS),))
        trained = [p for p in net.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(trained, lr=RATE)
        model = {"model.word_vectors.weight": vectors, **net.export(lambda p: p.detach().clone())}
        expected, losses = {}, []
        for step in range(STEPS):
            logits = torch.cat([net(vectors[w]) for w in words])
            loss = nn.functional.cross_entropy(logits, targets)
            optimizer.zero_grad()
            loss.backward()
            if step == 0:
                expected = {"logits": logits, **{"grad." + k: t for k, t in net.export(lambda p: p.grad).items()}}
                expected = {k: t.detach().clone() for k, t in expected.items()}
            losses.append(loss.item())
            optimizer.step()
        assert losses[-1] < losses[0] - 0.02, losses
        expected["losses"] = torch.tensor(losses)
        expected.update({"after." + k: t for k, t in net.export(lambda p: p.detach()).items()})
        directory = os.path.join(HERE, "..", "golden_networks", name)
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f, indent=1)
            f.write("\n")
        with open(os.path.join(directory, "run.json"), "w", encoding="utf-8") as f:
            json.dump({"tokens": [w.tolist() for w in words], "targets": targets.tolist(), "lr": RATE, "steps": STEPS}, f)
            f.write("\n")
        oracle.write_safetensors(os.path.join(directory, "model.safetensors"), model, {"program": "oracle", "step": "0"})
        oracle.write_safetensors(os.path.join(directory, "expected.safetensors"), expected)
        print(f"{name}: loss {losses[0]:.4f} -> {losses[-1]:.4f}")


torch.set_num_threads(1)
torch.manual_seed(4)
main()
