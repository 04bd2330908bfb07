/* tools: the functions that a chat may call, out of "tools", "tool_choice" and "parallel_tool_calls". What may be
 * called becomes a form that the answer keeps to (server/form/calls.h): from its beginning where a call is required,
 * else from the mark of one on. */
#ifndef NOISED_API_TOOLS_H
#define NOISED_API_TOOLS_H

#include "server/api/completions/request_draft.h"
#include "weights/chat.h"

enum { TOOLS_MOST = 128 };

/* How the template writes calls, found by having it write one; NULL: it does not, or in no style that is known. */
const CallStyle *tools_style(const Chat *chat);

/* What the template is to be told of tools, into *told: NULL where there are none, or none may be called. -1 with e. */
int tools_check(const RequestDraft *d, const ApiContext *ctx, const cJSON **told, ApiError *e);

/* The same tools as the form of the answer; after tools_check. */
int tools_form(RequestDraft *d, const ApiContext *ctx, const cJSON *told, ApiError *e);

#endif
