#!/usr/bin/env python3
"""A GGUF file of a model's shape with weights that mean nothing: what an engine's speed needs of a model.

    python3 benches/shape.py OUT.gguf [--type Q4_0|Q8_0] [--layers 22 --width 2048 --ffn 5632 --heads 32 --kv-heads 4]

The default is the shape of a 1.1B Llama. Every tensor repeats one short run of random blocks, so that writing it takes seconds.
"""

import argparse
import pathlib
import random
import struct

BLOCK = 32
ALIGNMENT = 32
F32, U32, STRING, ARRAY, I32_TYPE, F32_TYPE = 6, 4, 8, 9, 5, 6
TENSOR_F32 = 0
# Tensor type, file type, bytes of a block.
QUANTIZED = {"Q4_0": (2, 2, 18), "Q8_0": (8, 7, 34)}
SCALE = struct.pack("<e", 0.002)
PATTERN_BLOCKS = 4096


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def array(kind, items):
    return struct.pack("<IQ", kind, len(items)) + b"".join(items)


def vocabulary(size):
    """Tokens and kinds of a SentencePiece vocabulary: three special ones, the bytes, and words that nobody says."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [2, 3, 3] + [6] * 256
    words = [f"word{i}" for i in range(size - len(tokens))]
    return tokens + words, kinds + [1] * len(words)


def metadata(args, file_type):
    tokens, kinds = vocabulary(args.vocab)
    number = lambda key, value: pair(key, U32, struct.pack("<I", value))
    real = lambda key, value: pair(key, F32, struct.pack("<f", value))
    return [
        pair("general.architecture", STRING, text("llama")),
        pair("general.name", STRING, text("shape")),
        number("general.file_type", file_type),
        number("general.alignment", ALIGNMENT),
        number("llama.block_count", args.layers),
        number("llama.context_length", 8192),
        number("llama.embedding_length", args.width),
        number("llama.feed_forward_length", args.ffn),
        number("llama.attention.head_count", args.heads),
        number("llama.attention.head_count_kv", args.kv_heads),
        number("llama.rope.dimension_count", args.width // args.heads),
        number("llama.vocab_size", args.vocab),
        real("llama.attention.layer_norm_rms_epsilon", 1e-5),
        real("llama.rope.freq_base", 10000.0),
        pair("tokenizer.ggml.model", STRING, text("llama")),
        pair("tokenizer.ggml.tokens", ARRAY, array(STRING, [text(t) for t in tokens])),
        pair("tokenizer.ggml.scores", ARRAY, array(F32_TYPE, [struct.pack("<f", -i) for i in range(len(tokens))])),
        pair("tokenizer.ggml.token_type", ARRAY, array(I32_TYPE, [struct.pack("<i", kind) for kind in kinds])),
        number("tokenizer.ggml.unknown_token_id", 0),
        number("tokenizer.ggml.bos_token_id", 1),
        number("tokenizer.ggml.eos_token_id", 2),
    ]


def tensors(args):
    """Names with inputs and outputs; a norm has no outputs."""
    kv = args.width // args.heads * args.kv_heads
    yield "token_embd.weight", args.width, args.vocab
    yield "output.weight", args.width, args.vocab
    yield "output_norm.weight", args.width, None
    for i in range(args.layers):
        for name, inputs, outputs in [
            ("attn_norm", args.width, None), ("attn_q", args.width, args.width), ("attn_k", args.width, kv),
            ("attn_v", args.width, kv), ("attn_output", args.width, args.width), ("ffn_norm", args.width, None),
            ("ffn_gate", args.width, args.ffn), ("ffn_up", args.width, args.ffn), ("ffn_down", args.ffn, args.width),
        ]:
            yield f"blk.{i}.{name}.weight", inputs, outputs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--type", choices=QUANTIZED, default="Q4_0")
    for name, default in [("layers", 22), ("width", 2048), ("ffn", 5632), ("heads", 32), ("kv-heads", 4), ("vocab", 32000)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    if args.width % BLOCK or args.ffn % BLOCK:
        parser.error(f"--width and --ffn must be multiples of {BLOCK}")

    kind, file_type, block_bytes = QUANTIZED[args.type]
    numbers = random.Random(0)
    pattern = b"".join(SCALE + numbers.randbytes(block_bytes - 2) for _ in range(PATTERN_BLOCKS))
    listed, at, infos = list(tensors(args)), 0, []
    for name, inputs, outputs in listed:
        dims = (inputs,) if outputs is None else (inputs, outputs)
        size = inputs * 4 if outputs is None else inputs * outputs // BLOCK * block_bytes
        stored = TENSOR_F32 if outputs is None else kind
        info = text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, stored, at)
        infos.append((info, outputs is None, size))
        at += -(-size // ALIGNMENT) * ALIGNMENT
    pairs = metadata(args, file_type)
    with args.out.open("wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(pairs)))
        out.writelines(pairs)
        out.writelines(info for info, _, _ in infos)
        out.write(bytes(-out.tell() % ALIGNMENT))
        for _, is_norm, size in infos:
            whole, rest = divmod(size, len(pattern))
            if is_norm:
                out.write(struct.pack("<f", 1.0) * (size // 4))
            else:
                out.writelines(pattern for _ in range(whole))
                out.write(pattern[:rest])
            out.write(bytes(-out.tell() % ALIGNMENT))


if __name__ == "__main__":
    main()
