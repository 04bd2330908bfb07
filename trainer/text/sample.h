/* sample: text continued by a model, through the serving path. The bytes are those that the daemon answers with for the
 * same checkpoint, prompt and seeds: noise and draws are pure functions of seeds and positions. */
#ifndef NOISED_SAMPLE_H
#define NOISED_SAMPLE_H

#include "base/buffer.h"
#include "model/sampler.h"
#include "model/transformer.h"
#include "tokenizer/text_stream.h"
#include "tokenizer/tokenizer.h"

typedef struct SampleRun {
    const Model *model;
    const Tokenizer *tokenizer;
    const int *prompt; /* [n_prompt], at least one; behind n_prompt + max_tokens - 1 positions the context ends */
    int n_prompt, max_tokens;
    bool from_start; /* nothing of the prompt is text */
    Sampling sampling;
    NoiseKey noise;
    const int *ends; /* [n_ends] tokens that end the text, besides the model's own */
    int n_ends;
    const StopSet *stops; /* strings that end it and are no part of it; NULL: none */
    /* Called with text as it is ready, valid UTF-8, until it returns false; NULL: nobody wants it before the end. */
    bool (*show)(void *self, const char *text, size_t n);
    void *self;
} SampleRun;

/* Appends the text to out, NUL behind it. */
int sample_text(const SampleRun *r, Buffer *out, Err *err);
int sample_check(const SampleRun *r, Err *err); /* whether it fits: -1, as sample_text would say */

/* Length of text up to the end of its last sentence; all of it when it has none. */
size_t sample_sentences(const char *text, size_t n);

#endif
