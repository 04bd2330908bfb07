/* error: what a client is told when a request cannot be served, in OpenAI's shape with all four keys:
 *     {"error":{"message":...,"type":...,"param":...|null,"code":...|null}} */
#ifndef NOISED_API_ERROR_H
#define NOISED_API_ERROR_H

#include "base/buffer.h"

typedef struct ApiError {
    int status;         /* HTTP status; it determines the type */
    const char *code;   /* static string or NULL */
    char param[96];     /* name of the offending field, empty for none */
    double retry_after; /* seconds, 0 for none */
    char message[512];
} ApiError;

/* Fills e and returns -1, so that `return api_fail(...)` is the whole failure path. code and param may be NULL. */
int api_fail(ApiError *e, int status, const char *code, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

typedef struct ApiModels {
    const char *name;           /* what answers call it */
    const char *const *aliases; /* [n_aliases] further names that requests may use */
    int n_aliases;
    bool any;  /* requests may use any name at all */
    bool open; /* whoever asks is told of them, without an API key */
} ApiModels;

/* 404 unless model is one that is served; NULL, which names none, is fine. */
int api_check_model(const char *model, const ApiModels *served, ApiError *e);

int api_no_memory(ApiError *e); /* a 503, returns -1 */
int api_bad_key(ApiError *e);   /* a 401, returns -1 */

void api_error_print(Buffer *b, const ApiError *e);

#endif
