/* checkpoint: a directory in the Hugging Face layout,
 *     config.json  model.safetensors  tokenizer.json   [generation_config.json; optimizer.safetensors and
 *     trainer_state.json: the trainer's]
 * or, for large models of other programs, model.safetensors in shards (shards.h).
 *
 * Opening maps the weights read-only and validates everything - header, dtypes, shapes against the config,
 * duplicates, holes, overlap, missing and unknown names - before a single pointer into it is made. Weights then point
 * into the mapping: no copy, except what bind.h lists (small vectors not stored as F32, Hugging Face's gate + up).
 * All data is read once for its digest and for NaN (safetensors.h), at 1 to 2 GB/s where the CPU has SHA instructions.
 * Replace a live checkpoint by rename only: the old mapping then keeps the old data.
 *
 * Hugging Face's llama and gpt2 folders open as they stand; of gpt2 most weights are copied, transposed (gpt2.h).
 * convert.h makes a folder of our own of them, which needs no copies. */
#ifndef NOISED_CHECKPOINT_H
#define NOISED_CHECKPOINT_H

#include "base/err.h"
#include "model/transformer.h"
#include "tokenizer/tokenizer.h"
#include "weights/generation.h"
#include "weights/labels.h"
#include "weights/shards.h"

typedef struct Checkpoint {
    Model model;
    Labels labels;         /* of a classification */
    Tokenizer *tokenizer;  /* NULL when the folder has none (tokenizer_files.h) */
    Shards shards;         /* the mappings that the weights point into */
    void *owned;           /* what could not be borrowed from it; NULL when nothing */
    Generation generation; /* what requests get that do not say; its ends of a text are in the config */
    char hash[65]; /* sha256 of config.json, generation_config.json and what identifies the weights, hexadecimal */
} Checkpoint;

/* Must not move in memory while open. On failure nothing stays open. */
int checkpoint_open(Checkpoint *c, const char *dir, Err *err);
int checkpoint_open_copy(Checkpoint *c, const char *dir, Err *err); /* all weights in memory of our own, sealed */
void checkpoint_close(Checkpoint *c);

/* Writes config.json and model.safetensors into dir, creating it: vectors as F32, matrices as save_dtype F32, BF16, I8
 * or I4 (quantize.h says which are not). I8 and I4 weights cannot be saved again.
 * Each file is written as temp + fsync + rename, then the directory is fsynced. */
int checkpoint_save(const char *dir, const Model *m, const Labels *labels, Dtype save_dtype, uint64_t step, Err *err);

#endif
