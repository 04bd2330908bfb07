/* What a request is checked against: the limits and defaults of the command line and what is served. */
#ifndef NOISED_API_CONTEXT_H
#define NOISED_API_CONTEXT_H

#include "model/config.h"
#include "weights/labels.h"
#include "server/api/fields.h"
#include "server/form/calls.h"
#include "server/form/vocabulary.h"
#include "tokenizer/tokenizer.h"
#include "weights/generation.h"

typedef struct ApiLimits {
    int json_depth, json_values;
    int n;       /* of n and best_of */
    int prompts; /* per request */
    int queue;   /* choices per request, all prompts together */
    int messages;
    int logit_bias, stop, stop_bytes;
} ApiLimits;

/* What a request that does not say it gets. */
typedef struct ApiDefaults {
    int64_t seed;       /* of a completion without one; -1: drawn */
    int64_t noise_seed; /* of a request without any seed; -1: that of the sampling */
    double noise_scale;
} ApiDefaults;

/* Borrowed, constant while the server runs. */
typedef struct ApiContext {
    ApiLimits limits;
    ApiDefaults defaults;
    bool lenient;  /* fields that are unknown or not supported are left aside */
    bool no_slots; /* GET /slots tells nothing */
    bool guess;    /* tokens are tried ahead */
    ApiModels models;
    const char *fingerprint, *chat_fingerprint; /* of what answers: the latter of chats */
    const Config *config;
    const Labels *labels; /* of a classification */
    const Generation *generation;
    const Tokenizer *tokenizer;
    const Vocabulary *vocabulary; /* the tokenizer's */
    const struct Chat *chat;      /* chat/chat.h */
    const CallStyle *call_style;  /* how its template writes calls; NULL: in no way that is known */
} ApiContext;

/* For every route: the field "user", which may be absent, and the noise of a request that does not name it. */
int api_check_user(const char *user, ApiError *e);
void api_default_noise(const ApiContext *ctx, OptionalSeed seed, OptionalSeed *noise_seed, float *noise_scale);

#endif
