/* openapi: GET /openapi.json. Routes and requests come from the tables that the parser reads by (schema.h), answers
 * from answers.json, which the build makes part of the program. What the tables leave to options and to the model
 * stands there in numbers. */
#ifndef NOISED_API_OPENAPI_H
#define NOISED_API_OPENAPI_H

#include "server/api/context.h"

/* keys: the daemon asks for an API key. */
void openapi_print(Buffer *b, const ApiContext *ctx, bool keys);

/* The number that a `limit` of the tables stands for; false when it is not known here. */
bool openapi_limit(const ApiContext *ctx, const char *limit, double *value);

extern const char openapi_answers[]; /* answers.json */

#endif
