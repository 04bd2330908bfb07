#include "server/api/chat/chat.h"

#include "base/err.h"
#include "base/memory.h"
#include "server/api/chat/messages.h"
#include "server/api/chat/tools.h"
#include "server/api/completions/response.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

static const Type message = {
    .kind = TYPE_MAP, .of = {&api_text_type}, .schema = "{\"$ref\":\"#/components/schemas/Message\"}"};
const Type chat_messages_type = {.kind = TYPE_ARRAY, .low = 1, .limit = "--max-messages", .of = {&message}};

static const Type opening = {.kind = TYPE_BOOLEAN};
static int read_opening(const FieldReader *r, const cJSON *item) {
    RequestDraft *d = r->out;
    if (!cJSON_IsBool(item)) return field_fail(r, item, "true or false");
    d->opening = cJSON_IsTrue(item) ? DRAFT_OPENED : DRAFT_CLOSED;
    return 0;
}

static int read_variables(const FieldReader *r, const cJSON *item) {
    RequestDraft *d = r->out;
    if (!cJSON_IsObject(item)) return field_fail(r, item, "an object");
    d->chat_template_kwargs = item;
    return 0;
}

#define NEUTRAL(field, values, why)                                                                                    \
    { .name = field, .kind = FIELD_NEUTRAL, .neutral = values, .absent = "none", .help = why }
static const Type variables = {.kind = TYPE_MAP, .of = {&api_text_type}, .schema = "{\"type\":\"object\"}"};
static const Type tool = {
    .kind = TYPE_MAP, .of = {&api_text_type}, .schema = "{\"$ref\":\"#/components/schemas/Tool\"}"};
static const Type tools = {.kind = TYPE_ARRAY, .high = TOOLS_MOST, .of = {&tool}};
static const Type choice_word = {.kind = TYPE_STRING, .schema = "{\"enum\":[\"none\",\"auto\",\"required\"]}"};
static const Type choice_tool = {
    .kind = TYPE_MAP,
    .of = {&api_text_type},
    .schema = "{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"function\"},\"function\":{\"type\":"
              "\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"],"
              "\"additionalProperties\":false}},\"required\":[\"type\",\"function\"],\"additionalProperties\":false}"};
static const Type tool_choice = {.kind = TYPE_ONE_OF, .of = {&choice_word, &choice_tool}};

static const Field rows[] = {
    {DRAFT_FIELD(messages, FIELD_OTHER), .type = &chat_messages_type, .absent = "required",
     .help =
         "Objects of `role` and `content`, a string or an array of parts `{\"type\":\"text\",\"text\":...}`; all they "
         "have reaches the template, which says what roles there are. Special tokens that they spell out are text, "
         "so that nobody forges a turn, unless `parse_special` is true."},
    NEUTRAL("add_special_tokens", "[false]", "The template writes them."),
    {DRAFT_FIELD(chat_template_kwargs, FIELD_OTHER), .read = read_variables, .type = &variables, .absent = "none",
     .help =
         "What the template is given besides the messages: `enable_thinking`, `date_string` or whatever it asks for."},
    {.name = "add_generation_prompt",
     .kind = FIELD_OTHER,
     .read = read_opening,
     .type = &opening,
     .absent = "true, unless `continue_final_message`",
     .help = "False: the text ends behind the last message, and the model says who speaks next."},
    {DRAFT_FIELD(continue_final_message, FIELD_BOOL),
     .help = "The last message is the beginning of the answer, which goes on with it."},
    {.name = "echo",
     .kind = FIELD_BOOL,
     .offset = offsetof(RequestDraft, chat_echo),
     .help = "Put the last message, which is the assistant's, in front of the answer."},
    NEUTRAL("function_call", "[\"none\",\"auto\"]", "The old name of `tool_choice`."),
    NEUTRAL("functions", "[[]]", "The old name of `tools`."),
    {.name = "logprobs",
     .kind = FIELD_BOOL,
     .offset = offsetof(RequestDraft, chat_logprobs),
     .help = "Log-probabilities of the tokens."},
    {REQUEST_FIELD(max_tokens, FIELD_INT), .low = -1, .high = INT_MAX, .fallback = API_ABSENT, .absent = "-1",
     .help = "Tokens to generate at most; -1: as many as the context holds."},
    NEUTRAL("modalities", "[[\"text\"]]", "Answers are texts."),
    {.name = "n_probs", .kind = FIELD_NONE},
    {DRAFT_FIELD(parse_special, FIELD_BOOL), .help = "Special tokens that a content spells out become their ids."},
    {DRAFT_FIELD(parallel_tool_calls, FIELD_BOOL), .fallback = true,
     .help = "False: one call at most. So it is anyway of a template that writes one call only."},
    {.name = "prompt", .kind = FIELD_NONE},
    {.name = "suffix", .kind = FIELD_NONE},
    {DRAFT_FIELD(tool_choice, FIELD_OTHER), .type = &tool_choice, .absent = "`auto`",
     .help = "`auto`: the answer is text, or calls tools; `required`: it calls; `{\"type\":\"function\",\"function\":{"
             "\"name\":...}}`: it calls this one, once; `none`: the model is told of no tools."},
    {DRAFT_FIELD(tools, FIELD_OTHER), .type = &tools, .absent = "none",
     .help = "Functions that the answer may call: objects of `type` (`function`) and `function`, with its `name`, "
             "`description`, `parameters`, a JSON schema of type `object`, which the arguments of a call keep to, and "
             "`strict`: unless that is `true`, a `--lenient` server leaves aside what of the schema it cannot keep. "
             "Not with a form. Refused where the template has no form for calls that is known here."},
    {DRAFT_FIELD(top_logprobs, FIELD_INT), .high = 20, .fallback = -1, .absent = "none",
     .help = "So many alternatives for each token. Only with `logprobs: true`."},
};
#undef NEUTRAL

/* ---- from the fields to the prompt ---- */

/* What ends a turn ends the answer, as the end of text does; an answer out of a list ends by itself. */
static int add_ends(CompletionRequest *r, const Chat *chat, ApiError *e) {
    if (chat->end >= 0) {
        int *ids = try_realloc(r->stop_ids, ((size_t)r->n_stop_ids + 1) * sizeof *ids);
        if (!ids) return api_no_memory(e);
        r->stop_ids = ids;
        r->stop_ids[r->n_stop_ids++] = chat->end;
    }
    return *chat->stop && !r->trie && stop_set_add(&r->stop, chat->stop) ? api_no_memory(e) : 0;
}

/* Makes the prompt out of the messages, and settles what these fields say in their own way. */
static int read_chat(void *out, const void *context, ApiError *e) {
    RequestDraft *d = out;
    CompletionRequest *r = &d->request;
    const ApiContext *ctx = context;
    r->form = &response_chat;
    d->default_tokens = -1;
    if (d->top_logprobs > 0 && !d->chat_logprobs)
        return api_fail(e, 400, NULL, "top_logprobs", "top_logprobs is only allowed with logprobs: true");
    if (messages_prompt(d, ctx, e)) return -1;
    if (d->chat_logprobs) r->logprobs = MAX(d->top_logprobs, 0);
    return r->ignore_eos ? 0 : add_ends(r, ctx->chat, e);
}

const FieldList chat_fields = {.rows = rows, .n = COUNTOF(rows), .also = &completion_fields, .finish = read_chat};
