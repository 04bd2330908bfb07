/* results: the file that a batch's answers go to, a line each, in the order in which they are there:
 *
 *     {"id":"batch_req_3","custom_id":"a","response":{"status_code":200,"request_id":"req_3","body":{...}},"error":null}
 *     {"id":"batch_req_4","custom_id":null,"response":null,"error":{"code":...,"message":...,"param":...,"line":4}}
 *
 * 3 being the number of the request's line. A body is the bytes that HTTP would send. A line that was not written whole
 * is cut off, at once or when the file is taken over: what is there is whole. Nobody else may write it meanwhile. */
#ifndef NOISED_BATCH_RESULTS_H
#define NOISED_BATCH_RESULTS_H

#include "server/api/error.h"
#include "server/batch/ids.h"
#include "server/http/http.h"

typedef struct Results {
    const char *path; /* borrowed */
    int fd;
    int64_t lines, failed; /* in the file; of them those with an error, or a status of 400 and more */
    int64_t length;        /* bytes of them */
    bool synced;           /* a lost power takes nothing of them */
    char fingerprint[96];  /* system_fingerprint of the first answer that was taken over and has one, else "" */
    int64_t answered;      /* its line */
    Buffer line;           /* for those to come */
} Results;

int results_open(Results *r, const char *path, Err *err); /* or makes it */
void results_close(Results *r);

/* Reads what a former run has left, and marks in ids what need not be done again: by their custom_id, and what could
 * not be asked at all by its line. Nothing is changed in a file of another kind, which is a failure. */
int results_take_over(Results *r, Ids *ids, Err *err);

/* One line more; custom_id NULL: it has none. A failure of the file's leaves it as it was. */
int results_put_answer(Results *r, int64_t line, const char *custom_id, const HttpReply *reply, Err *err);
int results_put_error(Results *r, int64_t line, const char *custom_id, const ApiError *e, Err *err);

int results_sync(Results *r, Err *err);

#endif
