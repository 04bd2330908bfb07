/* line: a line of a batch's requests, in OpenAI's format:
 *
 *     {"custom_id":"a","method":"POST","url":"/v1/completions","body":{...}}  */
#ifndef NOISED_BATCH_LINE_H
#define NOISED_BATCH_LINE_H

#include "server/api/schema/schema.h"

enum { BATCH_ID_BYTES = 512 }; /* of a custom_id, at most */

typedef struct BatchLine {
    cJSON *json;              /* owned; what follows is borrowed from it, but for the body */
    const char *custom_id;    /* NULL: it has none that is any good */
    const char *method, *url; /* NULL: absent */
    const Route *route;       /* after batch_line_check */
    const cJSON *object;      /* the body, read */
    const char *body;         /* and its bytes in the line, as they stand there */
    size_t n_body;
} BatchLine;

/* Reads text, which has to outlive the line. -1 with e filled, of a line that is no JSON or whose custom_id is none;
 * the line must be closed then too. e->param names the member. */
int batch_line_read(BatchLine *l, const char *text, size_t n, ApiError *e);
int batch_line_check(BatchLine *l, ApiError *e); /* everything else */
void batch_line_close(BatchLine *l);

#endif
