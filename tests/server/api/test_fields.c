/* Fields as clients of other servers send them. */
#include "base/err.h"
#include "server/api/foreign.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <string.h>

static Answer ask(const Daemon *d, const char *body) {
    Answer a = http_post(d, "/v1/completions", body);
    CHECK_MSG(a.status == 200, "%s: %d %s", body, a.status, a.body);
    return a;
}

/* Both bodies get the same choices. */
static void check_equal(const Daemon *d, const char *body, const char *same) {
    Answer a = ask(d, body), b = ask(d, same);
    CHECK_MSG(json_same(a.json, "choices", b.json, "choices"), "%s\n%s", body, same);
}

#define P "{\"prompt\":\"The mill\",\"seed\":1,"

TEST(fields_other_names) {
    static const char *const same[][2] = {
        {P "\"max_completion_tokens\":5}", P "\"max_tokens\":5}"},
        {P "\"n_predict\":5,\"max_tokens\":5}", P "\"max_tokens\":5}"},
        {P "\"repeat_penalty\":1.5}", P "\"repetition_penalty\":1.5}"},
        {P "\"repeat_penalty\":1,\"repeat_last_n\":64}", P "\"temperature\":1}"},
        {P "\"repeat_penalty\":1.5,\"repeat_last_n\":0}", P "\"temperature\":1}"},
        {P "\"repeat_penalty\":1.5,\"repeat_last_n\":511}", P "\"repeat_penalty\":1.5}"},
        {P "\"repeat_penalty\":1.5,\"repeat_last_n\":4}",
         P "\"repetition_penalty\":1.5,\"repetition_penalty_range\":4}"},
        {P "\"temperature\":1e-8}", P "\"temperature\":0}"},
        {P "\"temperature\":1e-45}", P "\"temperature\":0}"},
        {P "\"n_probs\":3}", P "\"logprobs\":3}"},
        {P "\"n_probs\":0}", P "\"best_of\":0}"},
        {"{\"prompt\":[1,2],\"max_tokens\":-1,\"seed\":1,\"ignore_eos\":true}",
         "{\"prompt\":[1,2],\"max_tokens\":511,\"seed\":1,\"ignore_eos\":true}"},
        {"{\"prompt\":[70,\"ab\",71],\"seed\":1}", "{\"prompt\":[70,65,66,71],\"seed\":1}"},
        {"{\"prompt\":[\"ab\",71],\"seed\":1,\"add_special_tokens\":false}", "{\"prompt\":[65,66,71],\"seed\":1}"},
        {"{\"prompt\":[70,71,72],\"truncate_prompt_tokens\":2,\"seed\":1}", "{\"prompt\":[71,72],\"seed\":1}"},
        {"{\"prompt\":[70,71,72],\"truncate_prompt_tokens\":2,\"truncation_side\":\"right\",\"seed\":1}",
         "{\"prompt\":[70,71],\"seed\":1}"},
        {"{\"prompt\":[70,71,72],\"truncate_prompt_tokens\":3,\"seed\":1}", "{\"prompt\":[70,71,72],\"seed\":1}"},
        {"{\"prompt\":[70,71],\"truncate_prompt_tokens\":-1,\"seed\":1}", "{\"prompt\":[70,71],\"seed\":1}"},
    };
    static const Bad bad[] = {
        {"{\"max_tokens\":4,\"n_predict\":5}", 400, "n_predict"},
        {"{\"n_predict\":-2}", 400, "n_predict"},
        {"{\"n_predict\":\"5\"}", 400, "n_predict"},
        {"{\"max_completion_tokens\":-2}", 400, "max_completion_tokens"},
        {"{\"max_completion_tokens\":4,\"max_tokens\":5}", 400, "max_completion_tokens"},
        {"{\"max_tokens\":-2}", 400, "max_tokens"},
        {"{\"repeat_penalty\":0}", 400, "repeat_penalty"},
        {"{\"repeat_penalty\":1.5,\"repetition_penalty\":1.25}", 400, "repeat_penalty"},
        {"{\"repeat_last_n\":4,\"repetition_penalty_range\":64}", 400, "repetition_penalty_range"},
        {"{\"repeat_last_n\":-2}", 400, "repeat_last_n"},
        {"{\"n_probs\":21}", 400, "n_probs"},
        {"{\"n_probs\":2,\"logprobs\":3}", 400, "n_probs"},
        {"{\"best_of\":-1}", 400, "best_of"},
        {"{\"truncation_side\":\"top\"}", 400, "truncation_side"},
        {"{\"truncation_side\":1}", 400, "truncation_side"},
        {"{\"truncate_prompt_tokens\":-2}", 400, "truncate_prompt_tokens"},
        {"{\"truncate_prompt_tokens\":true}", 400, "truncate_prompt_tokens"},
        {"{\"prompt_logprobs\":-1}", 400, "prompt_logprobs"},
        {"{\"prompt_logprobs\":21}", 400, "prompt_logprobs"},
        {"{\"prompt_logprobs\":0,\"stream\":true}", 400, "prompt_logprobs"},
        {"{\"add_special_tokens\":1}", 400, "add_special_tokens"},
        {"{\"add_special_tokens\":false}", 400, "prompt"},
        {"{\"skip_special_tokens\":\"no\"}", 400, "skip_special_tokens"},
        {"{\"include_stop_str_in_output\":0}", 400, "include_stop_str_in_output"},
        {"{\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":1}}", 400,
         "stream_options.continuous_usage_stats"},
        {"{\"prompt\":[1,[2]]}", 400, "prompt"},
        {"{\"prompt\":[[1],2]}", 400, "prompt"},
        {"{\"prompt\":[1,null]}", 400, "prompt"},
        {"{\"prompt\":[\"a\",320]}", 400, "prompt"},
        {"{\"mirostat\":2}", 400, "mirostat"},
        {"{\"grammar\":\"root ::= x\"}", 400, "grammar"},
        {"{\"guided_json\":{\"not\":{}}}", 400, "guided_json.not"},
        {"{\"use_beam_search\":true}", 400, "use_beam_search"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(same); i++) check_equal(&d, same[i][0], same[i][1]);
    check_bodies(&d, "/v1/completions", bad, COUNTOF(bad));
    Answer a = http_post(&d, "/v1/completions", "{\"prompt\":[1,2.5,\"text\",7]}");
    CHECK_MSG(!strstr(a.body, ",,") && strstr(a.body, "not 2.5"), "%s", a.body);
    daemon_stop(&d);
}

TEST(fields_errors_say_what_may_be_given) {
    static const char *const cases[][2] = {
        {"{\"n\":1.5}", "n must be an integer between 1 and 2147483647, not 1.5"},
        {"{\"top_p\":1.5}", "top_p must be a number between 0 and 1, not 1.5"},
        {"{\"mirostat\":2}", "mirostat is not supported: it may be absent or 0 (llama-server)"},
        {"{\"top_n_sigma\":2}", "top_n_sigma is not supported: it may be absent or 0,-1 (llama-server)"},
        {"{\"max_tokens\":4,\"n_predict\":5}", "n_predict is 5, but max_tokens is 4: they mean the same"},
        {"{\"prompt\":[1,[2]]}", "prompt must be token ids, integers between 0 and 319, not an array"},
        {"{\"ebnf\":\"x\"}", "ebnf is not supported: it may be absent (SGLang: use `grammar`)"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer a = http_post(&d, "/v1/completions", cases[i][0]);
        const char *message = json_text(a.json, "error.message");
        CHECK_MSG(message && !strcmp(message, cases[i][1]), "%s: %s", cases[i][0], a.body);
    }
    daemon_stop(&d);
}

/* The requests of mikupad, of SillyTavern, of GuideLLM and of lm-evaluation-harness, field by field. */
TEST(fields_of_known_clients) {
    static const char *const bodies[] = {
        P "\"max_tokens\":2,\"max_context_length\":8192,\"repetition_penalty_range\":0,\"penalize_nl\":false,"
          "\"mirostat_mode\":0,\"mirostat_tau\":5,\"mirostat_eta\":0.1,\"tfs\":1,\"ban_eos_token\":false,\"top_k\":40}",
        P "\"max_tokens\":2,\"smoothing_factor\":0,\"smoothing_curve\":1,\"dry_multiplier\":0,\"dry_base\":1.75,"
          "\"dry_sequence_breakers\":\"[]\",\"xtc_probability\":0,\"xtc_threshold\":0.1,\"nsigma\":0,"
          "\"guidance_scale\":1,\"negative_prompt\":\"\",\"custom_token_bans\":\"\",\"banned_strings\":[],"
          "\"truncation_length\":2048,\"early_stopping\":false,\"add_bos_token\":true,\"skip_special_tokens\":true}",
        P "\"max_tokens\":2,\"cache_prompt\":true,\"id_slot\":-1,\"n_keep\":0,\"dynatemp_range\":0,"
          "\"samplers\":[\"penalties\",\"temperature\",\"top_k\",\"top_p\",\"min_p\",\"typ_p\"],"
          "\"timings_per_token\":false,\"repeat_last_n\":64,\"repeat_penalty\":1}",
        P "\"max_tokens\":2,\"use_beam_search\":false,\"length_penalty\":1.0,\"truncate_prompt_tokens\":null,"
          "\"spaces_between_special_tokens\":true,\"num_beams\":1,\"do_sample\":true}",
        P "\"max_tokens\":2,\"stream\":true,\"stream_options\":{\"include_usage\":true,"
          "\"continuous_usage_stats\":true}}",
        P "\"max_tokens\":2,\"prompt_cache_key\":\"k\",\"prompt_cache_retention\":\"24h\",\"safety_identifier\":\"u\","
          "\"prediction\":{\"type\":\"content\",\"content\":\"x\"},\"reasoning_effort\":\"low\",\"verbosity\":\"high\","
          "\"speculative.n_max\":8,\"speculative.p_min\":0.0}",
        P "\"max_tokens\":2,\"cache_salt\":\"a\",\"request_id\":\"b\",\"vllm_xargs\":null,\"include_reasoning\":true,"
          "\"n_cmpl\":1,\"t_max_prompt_ms\":-1,\"grammar_lazy\":false,\"grammar_triggers\":[],"
          "\"reasoning_format\":\"auto\",\"response_format\":{\"type\":\"text\",\"json_schema\":null}}",
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(bodies); i++) {
        Answer a = ask(&d, bodies[i]);
        CHECK(!strstr(a.headers, "x-noised-ignored"));
    }
    daemon_stop(&d);
}

/* {name: value} read by the table; 1 accepted, 0 refused by this name, -1 anything else. */
static int read_foreign(const char *name, const cJSON *value, Buffer *ignored) {
    ApiError e = {0};
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemReferenceToObject(object, name, (cJSON *)value);
    FieldReader r = {.error = &e, .ignored = ignored};
    int rc = fields_read(&r, object, &foreign_fields);
    cJSON_Delete(object);
    return rc == 0 ? 1 : e.status == 400 && !strcmp(e.param, name) ? 0 : -1;
}

TEST(fields_foreign_at_every_value) {
    cJSON *other = cJSON_CreateString("a value that changes something");
    for (const Field *f = foreign_fields.rows; f < foreign_fields.rows + foreign_fields.n; f++) {
        Buffer ignored = {0};
        cJSON *values = cJSON_Parse(f->neutral ? f->neutral : "[0,\"\",{},[1]]");
        CHECK_MSG(cJSON_IsArray(values) && f->kind == FIELD_NEUTRAL && f->help, "%s", f->name);
        for (const cJSON *v = values->child; v; v = v->next)
            CHECK_MSG(read_foreign(f->name, v, NULL) == 1, "%s", f->name);
        CHECK_MSG(read_foreign(f->name, other, NULL) == (f->neutral ? 0 : 1), "%s", f->name);
        CHECK_MSG(read_foreign(f->name, other, &ignored) == 1, "%s", f->name);
        CHECK_MSG(f->neutral ? ignored.n == strlen(f->name) && !memcmp(ignored.data, f->name, ignored.n)
                             : ignored.n == 0,
                  "%s", f->name);
        CHECK_MSG(f->help[0] && strspn(f->name, "abcdefghijklmnopqrstuvwxyz_.") == strlen(f->name), "%s", f->name);
        buffer_free(&ignored);
        cJSON_Delete(values);
    }
    cJSON_Delete(other);
}

/* Whether the object is there or not. */
TEST(fields_of_an_object_fall_back) {
    typedef struct Out {
        bool object, flag;
        int count;
    } Out;
    static const Field inner[] = {
        {.name = "count", .kind = FIELD_INT, .offset = offsetof(Out, count), .high = 9, .fallback = 7},
        {.name = "flag", .kind = FIELD_BOOL, .offset = offsetof(Out, flag), .fallback = true},
    };
    static const FieldList inside = {.rows = inner, .n = COUNTOF(inner)};
    static const Field rows[] = {
        {.name = "object", .kind = FIELD_OBJECT, .offset = offsetof(Out, object), .fields = &inside}};
    static const FieldList list = {.rows = rows, .n = COUNTOF(rows)};
    static const struct {
        const char *json;
        Out out;
    } cases[] = {{"{}", {false, true, 7}},
                 {"{\"object\":{}}", {true, true, 7}},
                 {"{\"object\":{\"count\":2}}", {true, true, 2}},
                 {"{\"object\":{\"count\":null,\"flag\":false}}", {true, false, 7}}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Out out = {0};
        ApiError e;
        FieldReader r = {.out = &out, .error = &e};
        cJSON *json = cJSON_Parse(cases[i].json);
        CHECK(fields_read(&r, json, &list) == 0);
        CHECK_MSG(out.object == cases[i].out.object && out.flag == cases[i].out.flag && out.count == cases[i].out.count,
                  "%s: %d, %d, %d", cases[i].json, out.object, out.flag, out.count);
        cJSON_Delete(json);
    }
}

TEST(fields_stop_stays_in_the_text) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer all = ask(&d, P "\"max_tokens\":60,\"ignore_eos\":true}");
    const char *text = answer_text(&all, 0);
    char stop[3] = {0}, body[256];
    for (const char *p = text + 8; *p && !*stop; p++) /* two plain letters, further back */
        if (p[0] > ' ' && p[0] < 127 && p[1] > ' ' && p[1] < 127 && !strchr("\"\\", p[0]) && !strchr("\"\\", p[1]))
            memcpy(stop, p, 2);
    REQUIRE(*stop);
    size_t at = (size_t)(strstr(text, stop) - text);
    for (int keep = 0; keep < 2; keep++)
        for (int stream = 0; stream < 2; stream++) {
            snprintf(body, sizeof body,
                     P "\"max_tokens\":60,\"ignore_eos\":true,\"stop\":\"%s\",\"stream\":%s,"
                       "\"include_stop_str_in_output\":%s}",
                     stop, stream ? "true" : "false", keep ? "true" : "false");
            Answer a = ask(&d, body);
            Events e = events_parse(stream ? a.body : "");
            char *joined = events_text(&e, 0);
            const char *got = stream ? joined : answer_text(&a, 0);
            CHECK_MSG(strlen(got) == at + (keep ? 2 : 0) && !strncmp(got, text, at + (keep ? 2 : 0)), "%s: %s", body,
                      got);
            free(joined);
            events_free(&e);
        }
    daemon_stop(&d);
}

TEST(fields_prompt_logprobs_are_those_of_echo) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer echo = ask(&d, P "\"max_tokens\":1,\"echo\":true,\"logprobs\":2,\"return_token_ids\":true}");
    Answer a = ask(&d, P "\"max_tokens\":1,\"prompt_logprobs\":2}");
    Answer none = ask(&d, P "\"max_tokens\":1,\"prompt_logprobs\":0,\"logprobs\":3}");
    const cJSON *ids = json_at(echo.json, "choices.0.prompt_token_ids"),
                *slots = json_at(a.json, "choices.0.prompt_logprobs");
    int n = cJSON_GetArraySize(ids);
    CHECK(n >= 2 && cJSON_GetArraySize(slots) == n && cJSON_IsNull(cJSON_GetArrayItem(slots, 0)));
    CHECK(json_number(echo.json, "usage.prompt_tokens") == n);
    CHECK(cJSON_IsNull(json_at(a.json, "choices.0.logprobs")));
    CHECK(cJSON_IsNull(json_at(echo.json, "choices.0.prompt_logprobs")));
    CHECK(cJSON_GetArraySize(json_at(none.json, "choices.0.logprobs.top_logprobs.0")) >= 3);
    for (int i = 1; i < n; i++) {
        char path[96], at[96];
        int id = cJSON_GetArrayItem(ids, i)->valueint;
        snprintf(at, sizeof at, "choices.0.logprobs.token_logprobs.%d", i);
        snprintf(path, sizeof path, "choices.0.prompt_logprobs.%d.%d.logprob", i, id);
        CHECK_MSG(json_number(echo.json, at) == json_number(a.json, path), "%s", path);
        CHECK_MSG(json_number(echo.json, at) == json_number(none.json, path), "%s", path);
        snprintf(at, sizeof at, "choices.0.logprobs.tokens.%d", i);
        snprintf(path, sizeof path, "choices.0.prompt_logprobs.%d.%d.decoded_token", i, id);
        CHECK_MSG(json_same(echo.json, at, a.json, path), "%s", path);
        int entries = cJSON_GetArraySize(cJSON_GetArrayItem(slots, i));
        CHECK_MSG(entries == 2 || entries == 3, "%d", entries);
    }
    daemon_stop(&d);
}

TEST(fields_stream_extras) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = ask(&d, P "\"max_tokens\":200,\"ignore_eos\":true,\"stream\":true,\"return_token_ids\":true,"
                         "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}}");
    Events e = events_parse(a.body);
    REQUIRE(e.n > 1 && e.done);
    double before = 0;
    for (int i = 0; i < e.n; i++) {
        double so_far = json_number(e.data[i], "usage.completion_tokens");
        CHECK_MSG(so_far >= before, "event %d", i);
        before = so_far;
        CHECK((json_at(e.data[i], "choices.0.prompt_token_ids") != NULL) == (i == 0));
    }
    CHECK(before == 200);
    events_free(&e);
    // vLLM's own test of stream_options asks for this pair.
    a = ask(&d, P "\"max_tokens\":4,\"stream\":true,"
                  "\"stream_options\":{\"include_usage\":false,\"continuous_usage_stats\":true}}");
    CHECK(a.status == 200 && strstr(a.body, "data: [DONE]") && !strstr(a.body, "\"usage\""));
    daemon_stop(&d);
}

static char *ids_of(const Events *e) {
    Buffer b = {0};
    for (int i = 0; i < e->n; i++) {
        const cJSON *id;
        cJSON_ArrayForEach(id, json_at(e->data[i], "choices.0.token_ids")) buffer_print(&b, "%d ", id->valueint);
    }
    buffer_append(&b, "", 1);
    return b.data;
}

/* A stream cut off behind k tokens and the rest of it, asked for anew, are the whole. */
TEST(fields_stream_from) {
    static const char form[] = P "\"max_tokens\":40,\"ignore_eos\":true,\"stream\":true,\"return_token_ids\":true,"
                                 "\"logprobs\":1,\"echo\":true,\"stream_from\":%d}";
    static const Bad bad[] = {
        {"{\"stream_from\":-1}", 400, "stream_from"},
        {"{\"stream_from\":\"1\"}", 400, "stream_from"},
        {"{\"stream_from\":1.5}", 400, "stream_from"},
        {"{\"stream_from\":17}", 400, "stream_from"},
        {"{\"stream_from\":1,\"n\":2}", 400, "stream_from"},
        {"{\"stream_from\":1,\"prompt\":[\"a\",\"b\"]}", 400, "stream_from"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    check_bodies(&d, "/v1/completions", bad, COUNTOF(bad));
    Answer whole = ask(&d, test_text(form, 0));
    Events all = events_parse(whole.body);
    char *text = events_text(&all, 0), *ids = ids_of(&all), *rest_ids = ids;
    for (int k = 1; k <= 40; k++) {
        rest_ids = strchr(rest_ids, ' ') + 1;
        Answer a = ask(&d, test_text(form, k));
        Events e = events_parse(a.body);
        char *tail = events_text(&e, 0), *tail_ids = ids_of(&e);
        size_t n = strlen(text), m = strlen(tail), i = strlen(ids), j = strlen(tail_ids);
        CHECK_MSG(m <= n && !strcmp(text + n - m, tail), "%d: %s", k, tail);
        /* Tokens whose text is held back are sent later in both. */
        CHECK_MSG(j <= i && j >= strlen(rest_ids) && !strcmp(ids + i - j, tail_ids), "%d: %s", k, tail_ids);
        CHECK_MSG(e.done && events_finish(&e, 0), "%d", k);
        free(tail);
        free(tail_ids);
        events_free(&e);
    }
    free(text);
    free(ids);
    events_free(&all);
    daemon_stop(&d);
}

/* Text that may become a stop string waits, and goes out beside the last token: who has that token has the text. */
TEST(fields_stream_from_the_last_token) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (int k = 1; k <= 8; k++) {
        Answer a = ask(
            &d,
            test_text(P "\"max_tokens\":%d,\"regex\":\"the end of it\",\"stop\":\"the end of it all\",\"stream\":true,"
                        "\"stream_from\":%d}",
                      k, k));
        Events e = events_parse(a.body);
        char *text = events_text(&e, 0);
        CHECK_MSG(!*text && e.done && events_finish(&e, 0), "%d: \"%s\"", k, text);
        free(text);
        events_free(&e);
    }
    daemon_stop(&d);
}

TEST(routes_of_other_servers) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer v = http_get(&d, "/version"), l = http_get(&d, "/load"), m = http_get(&d, "/models");
    CHECK(v.status == 200 && !strcmp(json_text(v.json, "version"), NOISED_VERSION));
    CHECK(l.status == 200 && json_number(l.json, "server_load") == 0);
    CHECK(m.status == 200 && !strcmp(json_text(m.json, "data.0.id"), "tiny"));
    daemon_stop(&d);
}
