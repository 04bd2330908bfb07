/* post: the routes that read a JSON body. A small one is read, checked and tokenised where it comes in, on the HTTP
 * thread; a larger one, pictures and a long answer by the workers, while the connection sleeps. A key may have as many
 * large bodies waiting as the engine's queue has places. */
#ifndef NOISED_POST_H
#define NOISED_POST_H

#include "server/api/schema/schema.h"
#include "server/http/http.h"
#include "server/server.h"

/* Fills the reply, or its task. */
void post(Server *s, const Route *route, const HttpRequest *request, HttpReply *reply);

/* What came of the answer that a task is; false for other tasks, and while a worker has it. */
bool post_summary(const HttpTask *task, AnswerSummary *summary);

void reply_error(HttpReply *reply, const ApiError *e);

#endif
