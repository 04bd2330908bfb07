/* pooling: a request that wants numbers about texts or pictures instead of more text: POST /v1/embeddings and
 * the tasks of models that classify, tag or fill in. Every input is one job for each noise sample; when all are done,
 * the route's form prints the answer. */
#ifndef NOISED_API_POOLING_H
#define NOISED_API_POOLING_H

#include "server/api/answer.h"

/* A word of a text that is tagged. */
typedef struct PoolingWord {
    int start, end; /* of its characters in the text */
    int first, n;   /* of its bytes */
    int row;        /* that tells its tag */
} PoolingWord;

typedef struct PoolingInput {
    int *ids; /* [n] tokens, or NULL and: */
    float *image;
    int n;            /* rows */
    int n_values;     /* that a job brings */
    bool truncated;   /* it was longer than the context and lost its end */
    const char *text; /* of tags, borrowed from the request's JSON */
    PoolingWord *words;
    int n_words;
} PoolingInput;

typedef struct PoolingRequest {
    PoolingInput *inputs; /* [n_inputs] */
    int n_inputs;
    const JobKind *kind;
    OptionalSeed seed, noise_seed;
    float noise_scale;
    int noise_samples;
    int top_k;   /* fill-mask */
    bool base64; /* embeddings */
    bool truncate;
    int truncate_prompt_tokens; /* 0: none; -1: to the context */
    cJSON *json;
    /* ---- of the JSON ---- */
    const char *model, *user, *encoding_format, *pooling;
    const cJSON *input;
    int dimensions;
    /* of a reranking, whose inputs are the query and then the documents, or texts */
    const char *query;
    const cJSON *documents, *texts;
    int top_n;
    int max_tokens_per_doc; /* 0: any */
    bool return_documents;
} PoolingRequest;

typedef struct Pooling {
    const AnswerContext *ctx;
    const struct PoolingForm *form;
    PoolingRequest request;
    uint64_t noise_seed; /* of sample 0, from which those of the others are derived */
    Job **jobs;          /* [n_jobs], sample s of input i at i * noise_samples + s */
    int n_jobs;
    bool accepted;       /* by the engine */
    bool ended;          /* all jobs are, and the answer takes long to write: */
    int printed;         /* results that are, */
    size_t begin, piece; /* and where in the Buffer the answer and the piece that is written begin */
} Pooling;

/* A route's rules and how its answer looks. */
typedef struct PoolingForm {
    /* Rules between fields, `kind` and the inputs with their n_values. What there is then is r's, on failure too. */
    int (*settle)(PoolingRequest *r, const ApiContext *ctx, ApiError *e);
    /* Appends the results from `from` on, of n_inputs, until it is enough; in front of the first one what the answer
     * begins with, and behind the last what it ends with. Returns where to go on. */
    int (*print)(Buffer *out, const Pooling *r, int from);
} PoolingForm;

/* The functions of an AnswerKind, whose `form` is a PoolingForm. */
void *pooling_start(const AnswerKind *kind, const AnswerContext *ctx, const FieldList *fields, const char *body,
                    size_t n, const Requester *requester, Buffer *ignored, ApiError *e);
bool pooling_poll(void *self, Buffer *out, int *status);
bool pooling_is_long(const void *self);
AnswerSummary pooling_summary(const void *self);
void pooling_free(void *self);
#define POOLING_ANSWER(form_of)                                                                                        \
    {                                                                                                                  \
        .start = pooling_start, .poll = pooling_poll, .is_long = pooling_is_long, .summary = pooling_summary,          \
        .free = pooling_free, .form = &(form_of)                                                                       \
    }

/* ---- for the forms ---- */

/* The input, one or a list of them, each read by `read_one`, which counts it in n_inputs; `what` they are called. */
typedef int ReadInput(PoolingRequest *r, const cJSON *item, const ApiContext *ctx, ApiError *e);
int pooling_read_each(PoolingRequest *r, const ApiContext *ctx, ReadInput *read_one, const char *what, ApiError *e);
/* Inputs that are texts or token ids, one or a list of them. */
int pooling_read_texts(PoolingRequest *r, const ApiContext *ctx, ApiError *e);
/* Adds a text of the field to the inputs, for which there is room. */
int pooling_add_text(PoolingRequest *r, const ApiContext *ctx, const char *field, const char *text, ApiError *e);

/* Whether a piece is long enough to let others come first. */
bool pooling_enough(const Pooling *r, const Buffer *out);

/* What all of these answers have: {"object":"list","data":[, in front of which the caller may put more, and, behind the
 * last result, the model, the noise and the tokens used. */
void pooling_print_open(Buffer *out);
void pooling_print_close(Buffer *out, const Pooling *r);

#endif
