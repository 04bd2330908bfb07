/* completion: one POST /v1/completions or /v1/chat/completions from the body to the last byte. It fans out into one job
 * per choice (prompt index * n + i), and each poll turns what the engine has pushed since into JSON: one object at the
 * end, or a server-sent event per choice with news. */
#ifndef NOISED_COMPLETION_H
#define NOISED_COMPLETION_H

#include "server/api/answer.h"

extern const AnswerKind completion_answer;

#endif
