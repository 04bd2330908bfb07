"""A checkpoint of llama2.c, with one matrix for embedding and head, and its tokenizer as a folder in the Hugging Face layout."""
import json
import os
import struct


def read_tokens(path):
    """-> [(bytes, score)]"""
    with open(path, "rb") as f:
        data = f.read()
    at, tokens = 4, []
    while at < len(data):
        score, n = struct.unpack_from("<fi", data, at)
        tokens.append((data[at + 8 : at + 8 + n], score))
        at += 8 + n
    return tokens


def tokenizer_json(tokens, marks):
    """`marks` are special tokens behind the others. Sentencepiece's merges in the order of their scores: a pair for every
    way to cut a piece in two."""
    names = ["<unk>", "<s>", "</s>"] + [t.decode().replace(" ", "\u2581") for t, _ in tokens[3:]]
    ids = {name: i for i, name in enumerate(names)}
    merges = []
    for i, name in enumerate(names[259:], 259):
        cuts = [(name[:k], name[k:]) for k in range(1, len(name)) if name[:k] in ids and name[k:] in ids]
        merges += [(-tokens[i][1], i, ids[a], ids[b], a, b) for a, b in cuts]
    special = [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, name in [*enumerate(names[:3]), *enumerate(marks, len(names))]]
    template = {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                         {"SpecialToken": {"id": "<s>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, space]},
            "pre_tokenizer": None, "post_processor": template,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "vocab": ids,
                      "merges": [f"{a} {b}" for *_, a, b in sorted(merges)]}}


def read_model(path):
    """-> config.json, {name: (shape, bytes)}. A head's features are pairs of angles there, and halves here."""
    with open(path, "rb") as f:
        d, hidden, layers, heads, kv, vocab, positions = struct.unpack("<7i", f.read(28))
        data = f.read()
    at, size, out = 0, d // heads, {}

    def take(name, rows, columns=1):
        nonlocal at
        n = 4 * rows * columns
        out[name] = ((rows, columns) if columns > 1 else (rows,), data[at : at + n])
        at += n

    def layer_by_layer(name, *shape):
        for l in range(layers):
            take(f"model.layers.{l}.{name}.weight", *shape)

    take("model.embed_tokens.weight", abs(vocab), d)
    for name, *shape in (("input_layernorm", d), ("self_attn.q_proj", d, d), ("self_attn.k_proj", kv * size, d),
                         ("self_attn.v_proj", kv * size, d), ("self_attn.o_proj", d, d), ("post_attention_layernorm", d),
                         ("mlp.gate_proj", hidden, d), ("mlp.down_proj", d, hidden), ("mlp.up_proj", hidden, d)):
        layer_by_layer(name, *shape)
    take("model.norm.weight", d)
    order = [*range(0, size, 2), *range(1, size, 2)]
    for name, (shape, w) in out.items():
        if "q_proj" in name or "k_proj" in name:
            rows = [w[i : i + 4 * d] for i in range(0, len(w), 4 * d)]
            out[name] = shape, b"".join(rows[h + i] for h in range(0, len(rows), size) for i in order)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": abs(vocab), "hidden_size": d,
              "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
              "num_key_value_heads": kv, "max_position_embeddings": positions, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True, "bos_token_id": 1,
              "eos_token_id": 2, "torch_dtype": "float32"}
    return config, out


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))


def add_rows(config, tensors, n):
    """Of tokens that the model has not seen: the mean of those that it has."""
    (rows, d), data = tensors["model.embed_tokens.weight"]
    values = struct.unpack(f"<{rows * d}f", data)
    mean = struct.pack(f"<{d}f", *(sum(values[i::d]) / rows for i in range(d)))
    tensors["model.embed_tokens.weight"] = (rows + n, d), data + n * mean
    config["vocab_size"] += n


def convert(model, tokens, folder, marks=(), **changes):
    os.makedirs(folder, exist_ok=True)
    config, tensors = read_model(model)
    add_rows(config, tensors, len(marks))
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    files = {"config.json": {**config, **changes}, "tokenizer.json": tokenizer_json(read_tokens(tokens), marks)}
    for name, value in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(value, f, ensure_ascii=False)
