#include "base/json_write.h"
#include "base/err.h"
#include "server/api/answer.h"
#include "server/api/completions/request.h"
#include "server/api/responses/responses.h"

#include <string.h>

/* What has an id of its own has that of the response, with another beginning. */
static void put_item_id(Buffer *b, const char *key, const ResponseHead *head) {
    char id[ANSWER_ID + 8];
    snprintf(id, sizeof id, "msg%s", head->id + strlen(response_responses.id));
    json_put_text(b, key, id);
}

/* ---- the items of the output, of which the text is the first ---- */

/* Of the message, which stands in front of calls: a stop string that is shown behind them is no item. */
static size_t text_bytes(const Choice *c) {
    if (!c->rules->style) return c->text.settled;
    return c->calls.n ? c->calls.content_in_front : c->calls.content.n;
}

static bool has_message(const Choice *c) { return c->calls.n == 0 || text_bytes(c) > 0; }

/* From byte `from` on. */
static void put_text(Buffer *b, const char *key, const Choice *c, size_t from) {
    const Buffer *text = c->rules->style ? &c->calls.content : &c->text.text;
    size_t n = text_bytes(c) - from;
    json_put_bytes(b, key, n ? text->data + from : "", n);
}

static void put_part(Buffer *b, const char *key, const Choice *c, bool said) {
    json_open(b, key, '{');
    json_put_text(b, "type", "output_text");
    put_text(b, "text", c, said ? 0 : text_bytes(c));
    json_put_raw(b, "annotations", "[]", 2);
    json_put_raw(b, "logprobs", "[]", 2);
    json_close(b, '}');
}

static const char *status_of(bool begun, bool whole) {
    return begun ? "in_progress" : whole ? "completed" : "incomplete";
}

static bool is_whole(const Choice *c) { return c->finish == FINISH_STOP; }

static void put_message(Buffer *b, const char *key, const ResponseHead *head, const Choice *c, bool said) {
    json_open(b, key, '{');
    put_item_id(b, "id", head);
    json_put_text(b, "type", "message");
    json_put_text(b, "status", status_of(!said, c->calls.n > 0 || is_whole(c)));
    json_put_text(b, "role", "assistant");
    json_open(b, "content", '[');
    if (said) put_part(b, NULL, c, true);
    json_close(b, ']');
    json_close(b, '}');
}

static void put_call_item_id(Buffer *b, const char *key, const ResponseHead *head, int number) {
    char id[ANSWER_ID + 16];
    snprintf(id, sizeof id, "fc%s-%d", head->id + strlen(response_responses.id), number);
    json_put_text(b, key, id);
}

static void put_call(Buffer *b, const char *key, const ResponseHead *head, const Choice *c, int number, bool said) {
    const Call *call = &c->calls.items[number];
    char id[CALL_ID];
    response_call_id(id, c, number);
    json_open(b, key, '{');
    put_call_item_id(b, "id", head, number);
    json_put_text(b, "type", "function_call");
    json_put_text(b, "status", status_of(!said, call->whole));
    json_put_text(b, "call_id", id);
    json_put_bytes(b, "name", call->name.data, call->name.n);
    json_put_bytes(b, "arguments", said && call->arguments.n ? call->arguments.data : "", said ? call->arguments.n : 0);
    json_close(b, '}');
}

static void put_output(Buffer *b, const ResponseHead *head, const Choice *c, bool said) {
    json_open(b, "output", '[');
    if (said && has_message(c)) put_message(b, NULL, head, c, true);
    for (int i = 0; said && i < c->calls.n; i++) put_call(b, NULL, head, c, i, true);
    json_close(b, ']');
}

static void put_usage(Buffer *b, const Choice *c) {
    json_open(b, "usage", '{');
    json_put_int(b, "input_tokens", c->job->n_prompt);
    json_open(b, "input_tokens_details", '{');
    json_put_int(b, "cached_tokens", job_progress(c->job).cached_tokens);
    json_close(b, '}');
    json_put_int(b, "output_tokens", c->n_read);
    json_put_raw(b, "output_tokens_details", "{\"reasoning_tokens\":0}", 22);
    json_put_int(b, "total_tokens", c->job->n_prompt + c->n_read);
    json_close(b, '}');
}

static void put_response(Buffer *b, const char *key, const ResponseHead *head, const Choice *c, bool said) {
    const CompletionRequest *r = head->request;
    bool cut = said && !is_whole(c);
    json_open(b, key, '{');
    json_put_text(b, "id", head->id);
    json_put_text(b, "object", "response");
    json_put_int(b, "created_at", head->created);
    json_put_text(b, "status", status_of(!said, is_whole(c)));
    json_put_null(b, "error");
    if (cut)
        json_put_raw(b, "incomplete_details", "{\"reason\":\"max_output_tokens\"}", 30);
    else
        json_put_null(b, "incomplete_details");
    if (cut && c->finish == FINISH_DEADLINE) json_put_bool(b, "deadline", true);
    json_put_text(b, "model", head->api->models.name);
    put_output(b, head, c, said);
    json_put_int(b, "max_output_tokens", r->max_tokens);
    json_put_null(b, "previous_response_id");
    json_put_float(b, "temperature", r->sampling.temperature);
    json_put_float(b, "top_p", r->sampling.top_p);
    json_put_bool(b, "store", false);
    json_put_raw(b, NULL, r->said, strlen(r->said));
    json_put_text(b, "truncation", "disabled");
    json_put_raw(b, "metadata", "{}", 2);
    if (said)
        put_usage(b, c);
    else
        json_put_null(b, "usage");
    json_put_uint(b, "seed", c->job->sampling.seed);
    answer_put_noise(b, head->api->config, &c->job->noise);
    json_put_text(b, "system_fingerprint", r->fingerprint);
    json_close(b, '}');
}

static void print_choice(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    (void)index, (void)part;
    put_response(b, NULL, head, c, true);
}

/* ---- events ---- */

typedef struct Stream {
    Buffer *b;
    const ResponseHead *head;
    const Choice *c;
    int number; /* of the next event */
} Stream;

static void open_event(Stream *s, const char *type) {
    buffer_print(s->b, "event: %s\ndata: ", type);
    json_open(s->b, NULL, '{');
    json_put_text(s->b, "type", type);
    json_put_int(s->b, "sequence_number", s->number++);
}

static void close_event(Stream *s) {
    json_close(s->b, '}');
    buffer_text(s->b, "\n\n");
}

static void print_response(Stream *s, const char *type, bool said) {
    open_event(s, type);
    put_response(s->b, "response", s->head, s->c, said);
    close_event(s);
}

static void print_message(Stream *s, const char *type, bool said) {
    open_event(s, type);
    json_put_int(s->b, "output_index", 0);
    put_message(s->b, "item", s->head, s->c, said);
    close_event(s);
}

/* Left open: of the text. */
static void open_text_event(Stream *s, const char *type) {
    open_event(s, type);
    put_item_id(s->b, "item_id", s->head);
    json_put_int(s->b, "output_index", 0);
    json_put_int(s->b, "content_index", 0);
}

static void print_part(Stream *s, const char *type, bool said) {
    open_text_event(s, type);
    put_part(s->b, "part", s->c, said);
    close_event(s);
}

static int call_place(const Choice *c, int number) { return number + has_message(c); }

static void print_call(Stream *s, const char *type, int number, bool said) {
    open_event(s, type);
    json_put_int(s->b, "output_index", call_place(s->c, number));
    put_call(s->b, "item", s->head, s->c, number, said);
    close_event(s);
}

static void print_arguments(Stream *s, const char *type, const char *key, int number, size_t from) {
    const Buffer *arguments = &s->c->calls.items[number].arguments;
    size_t n = arguments->n - from;
    open_event(s, type);
    put_call_item_id(s->b, "item_id", s->head, number);
    json_put_int(s->b, "output_index", call_place(s->c, number));
    json_put_bytes(s->b, key, n ? arguments->data + from : "", n);
    close_event(s);
}

static void open_message(Stream *s) {
    print_message(s, "response.output_item.added", false);
    print_part(s, "response.content_part.added", false);
}

static void end_message(Stream *s) {
    open_text_event(s, "response.output_text.done");
    put_text(s->b, "text", s->c, 0);
    json_put_raw(s->b, "logprobs", "[]", 2);
    close_event(s);
    print_part(s, "response.content_part.done", true);
    print_message(s, "response.output_item.done", true);
}

/* The first one ends the message. */
static void open_call(Stream *s, int number) {
    if (number == 0 && has_message(s->c)) end_message(s);
    print_call(s, "response.output_item.added", number, false);
}

static void end_call(Stream *s, int number) {
    print_arguments(s, "response.function_call_arguments.done", "arguments", number, 0);
    print_call(s, "response.output_item.done", number, true);
}

/* A stream that begins later opens and ends what it does not send. */
static void print_begin(Stream *s) {
    const Choice *c = s->c;
    print_response(s, "response.created", false);
    print_response(s, "response.in_progress", false);
    if (!c->rules->style || c->calls.content_sent > 0) open_message(s);
    for (int i = 0; i < c->calls.n && c->calls.items[i].told; i++) {
        open_call(s, i);
        if (c->calls.items[i].ended) end_call(s, i);
    }
}

static void print_text(Stream *s) {
    const Choice *c = s->c;
    size_t sent = c->rules->style ? c->calls.content_sent : c->text_sent;
    if (c->rules->style && text_bytes(c) <= sent) return;
    if (c->rules->style && sent == 0) open_message(s);
    open_text_event(s, "response.output_text.delta");
    put_text(s->b, "delta", c, sent);
    json_put_raw(s->b, "logprobs", "[]", 2);
    close_event(s);
}

static void print_calls(Stream *s) {
    for (int i = 0; i < s->c->calls.n; i++) {
        const Call *call = &s->c->calls.items[i];
        if (!call->told) open_call(s, i);
        if (call->arguments.n > call->sent)
            print_arguments(s, "response.function_call_arguments.delta", "delta", i, call->sent);
        if (call->whole && !call->ended) end_call(s, i);
    }
}

/* What has not ended by itself: an answer without calls, and a call that was cut. */
static void print_end(Stream *s) {
    const Choice *c = s->c;
    if (c->rules->style && c->calls.n == 0 && c->calls.content.n == 0) open_message(s);
    if (c->calls.n == 0) end_message(s);
    for (int i = 0; i < c->calls.n; i++)
        if (!c->calls.items[i].whole) end_call(s, i);
    print_response(s, is_whole(c) ? "response.completed" : "response.incomplete", true);
}

static int print_events(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    Stream s = {.b = b, .head = head, .c = c, .number = c->events_sent};
    (void)index;
    if (part == PART_BEGIN) print_begin(&s);
    if (part == PART_TEXT) {
        print_text(&s);
        print_calls(&s);
    }
    if (part == PART_END) print_end(&s);
    return s.number - c->events_sent;
}

const ResponseForm response_responses = {
    .id = "resp", .begins = true, .ends = true, .choice = print_choice, .events = print_events, .names_events = true};
