/* reading: what a request is that wants numbers about texts instead of more text: POST /v1/embeddings and the tasks of
 * models that classify, tag or fill in. Every input is one job or, with several noise samples, several; when all are
 * done, the route's form prints the answer. */
#ifndef NOISED_API_READING_H
#define NOISED_API_READING_H

#include "server/api/answer.h"

typedef struct ReadingRequest {
    Prompt *inputs; /* [n_inputs] */
    int n_inputs;
    JobKind kind;
    int n_values; /* that a job brings */
    OptionalSeed seed, noise_seed;
    float noise_scale;
    bool base64; /* embeddings */
    /* ---- settled when the request is read, of no use behind it ---- */
    const char *model, *user, *encoding_format, *pooling;
    const cJSON *input;
    int dimensions;
} ReadingRequest;

typedef struct Reading {
    const AnswerContext *ctx;
    const struct ReadingForm *form;
    ReadingRequest request;
    uint64_t noise_seed; /* that was used */
    bool has_noise;
    Job **jobs; /* [n_jobs], that of input i at i */
    int n_jobs;
    bool accepted; /* by the engine */
} Reading;

/* A route's rules and how its answer looks. */
typedef struct ReadingForm {
    int (*settle)(ReadingRequest *r, const ApiContext *ctx, ApiError *e); /* rules between fields; what a job is */
    void (*print)(Buffer *out, const Reading *r);
} ReadingForm;

/* The functions of an AnswerKind, whose `form` is a ReadingForm. */
void *reading_start(const AnswerKind *kind, const AnswerContext *ctx, const FieldList *fields, const char *body,
                    size_t n, const Asker *asker, Buffer *ignored, ApiError *e);
bool reading_poll(void *self, Buffer *out, int *status);
bool reading_is_long(const void *self);
bool reading_streams(const void *self);
AnswerStory reading_story(const void *self);
void reading_free(void *self);
#define READING_ANSWER(form_of)                                                                                        \
    {                                                                                                                  \
        .start = reading_start, .poll = reading_poll, .is_long = reading_is_long, .streams = reading_streams,          \
        .story = reading_story, .free = reading_free, .form = &(form_of)                                               \
    }

/* "model", "system_fingerprint" and "noise_seed", null where there was no noise: without braces. For the forms. */
void reading_print_end(Buffer *out, const Reading *r);

#endif
