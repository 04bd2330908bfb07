/* tokenizer_json: Hugging Face tokenizer.json <-> Tokenizer.
 *
 * Two families are read of model.type BPE:
 *     byte level     pre_tokenizer ByteLevel, decoder ByteLevel, no normalizer (GPT-2)
 *     SentencePiece  model.byte_fallback true; normalizer [Prepend, Replace] or pre_tokenizer Metaspace;
 *                    decoder [Replace, ByteFallback, Fuse(, Strip)] (Llama, Mistral)
 * and of model.type WordLevel the lists of word vectors: pre_tokenizer WhitespaceSplit, normalizer Lowercase or null,
 * no decoder, no added tokens, model.unk_token in the vocabulary.
 * post_processor may be null, ByteLevel, or a template that puts one token in front (tokenizer_bos), one
 * behind (tokenizer_tail), or both.
 * `truncation` and `padding`, which transformers saves with a tokenizer that was called so and sets anew in every call,
 * shorten and fill nothing here.
 * Whatever else would change the ids is refused by name, never ignored, and so is a vocabulary that is not whole: ids
 * with holes, duplicates, merges of unknown pieces, missing byte pieces, NUL in a string.
 *
 * Files written are loadable by `tokenizers` and give the same ids there; saving, loading and saving again gives the
 * same bytes. Loading may run in several threads at once. */
#ifndef NOISED_TOKENIZER_JSON_H
#define NOISED_TOKENIZER_JSON_H

#include "base/err.h"
#include "base/sha256.h"
#include "tokenizer/tokenizer.h"

int tokenizer_json_load(Tokenizer **out, const char *path, Err *err);
int tokenizer_json_parse(Tokenizer **out, const char *text, size_t n, Err *err);

/* Atomic: temp + fsync + rename. */
int tokenizer_json_save(const Tokenizer *t, const char *path, Err *err);
/* Of what would be saved, so that two files of one tokenizer have the same. */
int tokenizer_json_sha256(const Tokenizer *t, char hex[SHA256_HEX], Err *err);

#endif
