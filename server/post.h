/* post: the routes that read a JSON body. A small one is read, checked and tokenised where it comes in, on the HTTP
 * thread; a larger one, pictures and a long answer by the workers, while the connection sleeps. A key may have as many
 * large bodies waiting as the engine's queue has places. All functions are the HTTP thread's. */
#ifndef NOISED_POST_H
#define NOISED_POST_H

#include "server/api/schema/schema.h"
#include "server/http/http.h"
#include "server/server.h"

/* Fills the reply, or its task. */
void post(Server *s, const Route *route, const HttpRequest *request, HttpReply *reply);

/* How an answer goes that was accepted, and whose it is. Borrows from the answer. */
typedef struct PostReport {
    AnswerSummary answer;
    char tenant[AUTH_NAME_BYTES]; /* what its key is called; "": there are no keys */
    const char *request_id;       /* the client's; NULL: it has none yet */
    const char *path;
    bool stream;
} PostReport;

/* Of the answer that a task is; false for other tasks, and while a worker has it. */
bool post_report(const HttpTask *task, PostReport *report);

/* Of every answer that is not complete yet, the oldest first, but for those that a worker has. */
void posts_report(const Server *s, void (*take)(void *arg, const PostReport *report), void *arg);

void reply_error(HttpReply *reply, const ApiError *e);

#endif
