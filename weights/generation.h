/* generation: generation_config.json, in which a model's publisher says how it is best asked: for requests that do not
 * say it themselves.
 *
 *     temperature, top_k, top_p, min_p, typical_p, repetition_penalty   within the ranges of requests
 *     do_sample       false: temperature is 0
 *     eos_token_id    an id or a list: these end a text besides those of config.json
 *
 * null means absent. All other keys are another program's business; they are named, so that a person can be told. */
#ifndef NOISED_GENERATION_H
#define NOISED_GENERATION_H

#include "base/buffer.h"
#include "base/err.h"
#include "base/sha256.h"
#include "model/config.h"

#define GENERATION_FILE "generation_config.json"

enum { GENERATION_TEMPERATURE, GENERATION_REPETITION = 5, GENERATION_VALUES };
typedef struct GenerationKey {
    const char *name; /* the file's and the request's */
    double low, high, fallback;
    bool whole; /* an integer */
} GenerationKey;
extern const GenerationKey generation_keys[GENERATION_VALUES];

typedef struct Generation {
    bool there;                       /* the folder has the file */
    double values[GENERATION_VALUES]; /* the key's fallback where the file says nothing */
    char unused[512];                 /* names of the other keys, "a, b", cut short where there are too many */
} Generation;

/* Of the folder of a network that generates: adds the ends of a text to c, and the file, if there is one, to what
 * identifies the checkpoint: the same request gets other bytes by it. */
int generation_open(Generation *g, Config *c, Sha256 *hash, const char *dir, Err *err);

/* "temperature 0.6, top_p 0.9": the values that are no fallbacks. */
void generation_print(const Generation *g, Buffer *b);

#endif
