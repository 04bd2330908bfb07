/* reading: what a request is that wants numbers about texts or pictures instead of more text: POST /v1/embeddings and
 * the tasks of models that classify, tag or fill in. Every input is one job for each noise sample; when all are done,
 * the route's form prints the answer. */
#ifndef NOISED_API_READING_H
#define NOISED_API_READING_H

#include "server/api/answer.h"

/* A word of a text that is tagged. */
typedef struct ReadingWord {
    int start, end; /* of its characters in the text */
    int first, n;   /* of its bytes */
    int row;        /* that tells its tag */
} ReadingWord;

typedef struct ReadingInput {
    int *ids; /* [n] tokens, or NULL and: */
    float *image;
    int n;            /* rows */
    int n_values;     /* that a job brings */
    bool truncated;   /* it was longer than the context and lost its end */
    const char *text; /* of tags, borrowed from the request's JSON */
    ReadingWord *words;
    int n_words;
} ReadingInput;

typedef struct ReadingRequest {
    ReadingInput *inputs; /* [n_inputs] */
    int n_inputs;
    JobKind kind;
    OptionalSeed seed, noise_seed;
    float noise_scale;
    int noise_samples;
    int top_k;   /* fill-mask */
    bool base64; /* embeddings */
    bool truncate;
    cJSON *json;
    /* ---- of the JSON ---- */
    const char *model, *user, *encoding_format, *pooling;
    const cJSON *input;
    int dimensions;
} ReadingRequest;

typedef struct Reading {
    const AnswerContext *ctx;
    const struct ReadingForm *form;
    ReadingRequest request;
    uint64_t noise_seed; /* of sample 0, from which those of the others are derived */
    bool has_noise;
    Job **jobs; /* [n_jobs], sample s of input i at i * noise_samples + s */
    int n_jobs;
    bool accepted; /* by the engine */
} Reading;

/* A route's rules and how its answer looks. */
typedef struct ReadingForm {
    /* Rules between fields, `kind` and the inputs with their n_values. What there is then is r's, on failure too. */
    int (*settle)(ReadingRequest *r, const ApiContext *ctx, ApiError *e);
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

/* ---- for the forms ---- */

/* For a FIELD_OTHER "input": keeps the item until settle. */
int reading_keep_input(const FieldReader *r, const cJSON *item);
/* The input, one or a list of them, each read by `read_one`, which counts it in n_inputs; `what` they are called. */
typedef int ReadInput(ReadingRequest *r, const cJSON *item, const ApiContext *ctx, ApiError *e);
int reading_read_each(ReadingRequest *r, const ApiContext *ctx, ReadInput *read_one, const char *what, ApiError *e);
/* Inputs that are texts or token ids, one or a list of them. */
int reading_read_texts(ReadingRequest *r, const ApiContext *ctx, ApiError *e);
extern const Type reading_text_type, reading_texts_type, reading_tokens_type;

/* What all of these answers have: {"object":"list","data":[ and, behind the last result, the model, the noise and the
 * tokens used. */
void reading_print_open(Buffer *out);
void reading_print_close(Buffer *out, const Reading *r);

#endif
