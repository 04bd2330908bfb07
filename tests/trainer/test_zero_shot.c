/* Questions to a language model: files, likelihoods by their definition and through the daemon, and a whole training
 * that makes the answers right. */
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"
#include "tests/trainer/test_trainer.h"
#include "trainer/tasks/zero_shot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *put(const char *name, const char *text) {
    const char *dir = test_dir(), *path = test_text("%s/%s", dir, name);
    test_write_file(path, text, strlen(text));
    return path;
}

TEST(questions_of_all_forms) {
    Questions q;
    Err err;
    const char *path =
        put("q.jsonl", "{\"query\": \"a\\nb \", \"gold\": 1, \"choices\": [\"c\", \"d e\", \"\u00e9\"]}\n"
                       "{\"ind\": 4, \"choices\": [\"f\", \"g\"], \"gold\": 0, \"query\": \"\"}\n");
    REQUIRE(questions_load(&q, path, &err) == 0);
    CHECK(q.n == 2 && !q.cloze && q.n_choices == 5 && q.items[0].n_choices == 3 && q.items[1].n_choices == 2);
    CHECK(!strcmp(q.items[0].query, "a\nb ") && q.items[0].gold == 1 && !strcmp(q.items[0].choices[1], "d e"));
    CHECK(!strcmp(q.items[1].query, "") && !strcmp(q.items[1].choices[0], "f") && q.items[1].line == 2);
    questions_free(&q);
    path = put("q.jsonl", "{\"context\": \"a b\", \"continuation\": \"c\"}");
    REQUIRE(questions_load(&q, path, &err) == 0);
    CHECK(q.n == 1 && q.cloze && q.items[0].n_choices == 1 && !strcmp(q.items[0].choices[0], "c"));
    CHECK(!strcmp(question_context(q.items, 0), "a b") && !strcmp(question_continuation(q.items, 0), "c"));
    questions_free(&q);
    path = put("q.jsonl", "{\"contexts\": [\"Ann\", \"Bob\", \"Cy\"], \"continuation\": \"is\", \"gold\": 2}\n"
                          "{\"query\": \"a\", \"choices\": [\"b\", \"c\"], \"gold\": 0}\n");
    REQUIRE(questions_load(&q, path, &err) == 0);
    CHECK(q.n == 2 && !q.cloze && q.n_choices == 5 && q.items[0].n_choices == 3 && q.items[0].gold == 2);
    CHECK(!strcmp(question_context(q.items, 1), "Bob") && !strcmp(question_continuation(q.items, 1), "is"));
    CHECK(!strcmp(question_context(q.items + 1, 1), "a") && !strcmp(question_continuation(q.items + 1, 1), "c"));
    questions_free(&q);
}

TEST(questions_refuse_bad_lines) {
    static const char good[] = "{\"query\":\"a\",\"choices\":[\"b\",\"c\"],\"gold\":1}";
    static const struct {
        const char *line, *why;
    } cases[] = {
        {"{\"query\":\"a\",\"choices\":[\"b\",\"c\"],\"gold\":2}", "q.jsonl:2: \"gold\" is 2, must be 0 to 1"},
        {"{\"query\":\"a\",\"choices\":[\"b\",\"c\"]}", "q.jsonl:2: \"gold\" is missing"},
        {"{\"query\":\"a\",\"choices\":[\"b\"],\"gold\":0}", "q.jsonl:2: 1 choices, must be 2 to 64"},
        {"{\"query\":\"a\",\"choices\":[\"b\",\" \"],\"gold\":0}", "\"choices\" is "},
        {"{\"query\":\"a\",\"choices\":[\"b\",3],\"gold\":0}", "\"choices\" is 3, must be a text"},
        {"{\"query\":\"a\",\"choices\":\"b\",\"gold\":0}", "must be a list"},
        {"{\"query\":7,\"choices\":[\"b\",\"c\"],\"gold\":0}", "\"query\" is 7, must be a text"},
        {"{\"choices\":[\"b\",\"c\"],\"gold\":0}", "\"query\" is missing"},
        {"{\"query\":\"a\",\"choices\":[\"b\",\"c\"],\"gold\":0,\"label\":1}", "line 2 has the unknown key"},
        {"{\"context\":\"a\",\"continuation\":\"b\"}", "q.jsonl:2: a context among queries"},
        {"{\"contexts\":[\"a\"],\"continuation\":\"b\",\"gold\":0}", "q.jsonl:2: 1 contexts, must be 2 to 64"},
        {"{\"contexts\":\"a\",\"continuation\":\"b\",\"gold\":0}", "\"contexts\" is \"a\", must be a list"},
        {"{\"contexts\":[\"a\",\"b\"],\"gold\":0}", "q.jsonl:2: \"continuation\" is missing"},
        {"{\"contexts\":[\"a\",\"b\"],\"choices\":[\"c\"],\"gold\":0}", "line 2 has the unknown key"},
        {"{\"query\":\"a\"", "q.jsonl:2:"},
        {"\r\n \t\n{}", "q.jsonl:4:"},
        {"\xFF", "q.jsonl:2: bytes that are no UTF-8"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        const char *path = put("q.jsonl", test_text("%s\n%s\n", good, cases[i].line));
        Questions q;
        Err err = {""};
        CHECK(questions_load(&q, path, &err));
        CHECK_MSG(strstr(err.msg, cases[i].why), "\"%s\" lacks \"%s\"", err.msg, cases[i].why);
    }
    const char *path = put("q.jsonl", "");
    Questions q;
    Err err = {""};
    CHECK(questions_load(&q, path, &err) && strstr(err.msg, "there are no questions in it"));
    CHECK(questions_load(&q, "/no/q.jsonl", &err) && strstr(err.msg, "/no/q.jsonl: No such file"));
}

TEST(zero_shot_score_by_definition) {
    /* question 0: the short choice is likelier, the long one per character; 1: a tie, the first wins; 2: right twice */
    static const char *texts[] = {"ab", "abcdef", "a", "b", "\u00e9\u00e9", "a"};
    Question items[] = {{.choices = texts, .n_choices = 2, .gold = 1},
                        {.choices = texts + 2, .n_choices = 2, .gold = 1},
                        {.choices = texts + 4, .n_choices = 2, .gold = 0}};
    Questions q = {.items = items, .n = 3, .n_choices = 6};
    Likelihood l[] = {{.log_likelihood = -2}, {.log_likelihood = -3},   {.log_likelihood = -1},
                      {.log_likelihood = -1}, {.log_likelihood = -1.5}, {.log_likelihood = -1.6}};
    ZeroShotScore s = zero_shot_score(&q, l);
    CHECK(fabs(s.acc - 1.0 / 3) < 1e-12 && fabs(s.acc_norm - 2.0 / 3) < 1e-12);
    CHECK(fabs(s.acc_error - sqrt((4.0 / 9 + 1.0 / 9 + 1.0 / 9) / 2 / 3)) < 1e-12);
    CHECK(fabs(s.chance - 0.5) < 1e-12 && fabs(s.majority - 2.0 / 3) < 1e-12);
    for (int i = 0; i < 3; i++) items[i] = (Question){.choices = texts + i, .n_choices = 1};
    q.cloze = true;
    q.n_choices = 3;
    l[1].greedy = true;
    s = zero_shot_score(&q, l);
    CHECK(fabs(s.acc - 1.0 / 3) < 1e-12 && fabs(s.perplexity - exp(2)) < 1e-12);
}

typedef struct Scored {
    Checkpoint c;
    Questions q;
    Likelihood l[64];
    int truncated;
} Scored;

static bool score(Scored *s, const char *dir, const char *text, const ZeroShot *how, Err *err) {
    const char *path = put("q.jsonl", text);
    if (checkpoint_open(&s->c, dir, err)) BUG_ON(true);
    if (questions_load(&s->q, path, err)) BUG_ON(true);
    ZeroShot z = *how;
    z.checkpoint = &s->c;
    int rc = zero_shot(&z, &s->q, s->l, &s->truncated, err);
    s->q.path = "q.jsonl";
    return rc == 0;
}

static void scored_close(Scored *s) {
    questions_free(&s->q);
    checkpoint_close(&s->c);
}

/* The last: one continuation behind two contexts. */
static const char asked[] =
    "{\"query\":\"the sea and\",\"choices\":[\"a ship\",\"cold water\"],\"gold\":0}\n"
    "{\"query\":\"Question: what? \\n\",\"choices\":[\"I saw it\",\"x\",\"a whale\"],\"gold\":2}\n"
    "{\"query\":\"\",\"choices\":[\"of\",\"in the night\"],\"gold\":1}\n"
    "{\"contexts\":[\"the captain\",\"the cold whale \"],\"continuation\":\"saw it\",\"gold\":0}\n";

TEST(zero_shot_adds_up_log_softmax) {
    const char *dir = test_checkpoint(CHECKPOINT_SMALL);
    ZeroShot z = {.delimiter = " ", .noise = {.seed = 5, .scale = 1}};
    Scored s;
    Err err;
    bool good = score(&s, dir, asked, &z, &err);
    CHECK_MSG(good, "%s", err.msg);
    static const char *const wholes[] = {"the sea and a ship",
                                         "the sea and cold water",
                                         "Question: what? \n I saw it",
                                         "Question: what? \n x",
                                         "Question: what? \n a whale",
                                         NULL,
                                         NULL,
                                         "the captain saw it",
                                         "the cold whale  saw it"};
    static const char *const contexts[] = {
        "the sea and", "the sea and", "Question: what?", "Question: what?", "Question: what?",
        NULL,          NULL,          "the captain",     "the cold whale"};
    for (int k = 0; good && k < 9; k++) {
        if (!wholes[k]) continue;
        TokenList whole = {0}, context = {0};
        tokenizer_encode(s.c.tokenizer, wholes[k], strlen(wholes[k]), true, &whole, &err);
        tokenizer_encode(s.c.tokenizer, contexts[k], strlen(contexts[k]), true, &context, &err);
        int n = (int)whole.n, vocab = s.c.model.cfg.vocab_size;
        float *logits = test_serve(&s.c.model, whole.ids, n, z.noise, &n, 1);
        double sum = 0;
        for (int i = (int)context.n; i < n; i++) {
            const float *row = logits + (size_t)(i - 1) * (size_t)vocab;
            double total = 0;
            for (int v = 0; v < vocab; v++) total += exp((double)row[v]);
            sum += (double)row[whole.ids[i]] - log(total);
        }
        CHECK_MSG(s.l[k].n_tokens == n - (int)context.n && fabs(s.l[k].log_likelihood - sum) < 1e-4 * fabs(sum),
                  "text %d: %d tokens, %.9g; by definition %d, %.9g", k, s.l[k].n_tokens, s.l[k].log_likelihood,
                  n - (int)context.n, sum);
        free(logits);
        token_list_free(&whole);
        token_list_free(&context);
    }
    scored_close(&s);
}

/* The same sum from an answer of the daemon. */
static double sum_of(const cJSON *answer, int n_tokens, bool *greedy) {
    const cJSON *logprobs = json_at(answer, "choices.0.logprobs.token_logprobs");
    const cJSON *tops = json_at(answer, "choices.0.logprobs.top_logprobs"), *top;
    int n = cJSON_GetArraySize(logprobs);
    double sum = 0;
    *greedy = true;
    for (int i = n - n_tokens; i < n; i++) {
        float one = (float)cJSON_GetArrayItem(logprobs, i)->valuedouble;
        sum += (double)one;
        cJSON_ArrayForEach(top, cJSON_GetArrayItem(tops, i)) *greedy &= (float)top->valuedouble <= one;
    }
    return sum;
}

TEST(zero_shot_is_what_the_daemon_says) {
    const char *dir = test_checkpoint(CHECKPOINT_SMALL);
    ZeroShot z = {.delimiter = " ", .noise = {.seed = 3, .scale = 1.5f}};
    Scored s;
    Daemon d;
    Err err;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    bool good = score(&s, dir, asked, &z, &err);
    CHECK_MSG(good, "%s", err.msg);
    for (int k = 0; good && k < s.q.n_choices; k++) {
        const Question *item = &s.q.items[s.l[k].question];
        cJSON *body = cJSON_CreateObject();
        TokenList ids = {0};
        const char *before = question_context(item, s.l[k].choice);
        if (!*before) token_list_push(&ids, TEST_EOS); /* what starts a document */
        const char *text = test_text("%s %s", before, question_continuation(item, s.l[k].choice));
        tokenizer_encode(s.c.tokenizer, text, strlen(text), true, &ids, &err);
        cJSON_AddItemToObject(body, "prompt", cJSON_CreateIntArray(ids.ids, (int)ids.n));
        cJSON_AddTrueToObject(body, "echo");
        cJSON_AddNumberToObject(body, "logprobs", 1);
        cJSON_AddNumberToObject(body, "max_tokens", 0);
        cJSON_AddNumberToObject(body, "noise_seed", 3);
        cJSON_AddNumberToObject(body, "noise_scale", 1.5);
        char *printed = cJSON_PrintUnformatted(body);
        Answer a = http_post(&d, "/v1/completions", printed);
        bool greedy = false;
        double sum = a.status == 200 ? sum_of(a.json, s.l[k].n_tokens, &greedy) : NAN;
        CHECK_MSG(sum == s.l[k].log_likelihood && greedy == s.l[k].greedy,
                  "%s: %.17g here, %.17g by the daemon (status %d)", text, s.l[k].log_likelihood, sum, a.status);
        token_list_free(&ids);
        cJSON_Delete(body);
        free(printed);
    }
    scored_close(&s);
    daemon_stop(&d);
}

TEST(zero_shot_refuses_what_does_not_fit) {
    const char *dir = test_checkpoint(CHECKPOINT_SMALL); /* 512 positions */
    ZeroShot z = {.delimiter = " "};
    Scored s;
    Err err;
    char *line = xmalloc(8192), *x = xmalloc(2001);
    memset(x, 'z', 2000);
    x[2000] = 0;
    snprintf(line, 8192, "{\"context\":\"a\",\"continuation\":\"b\"}\n{\"context\":\"%s\",\"continuation\":\"b\"}\n",
             x);
    CHECK(!score(&s, dir, line, &z, &err));
    CHECK_MSG(strstr(err.msg, "q.jsonl:2: 2") && strstr(err.msg, "max_position_embeddings is 512"), "%s", err.msg);
    scored_close(&s);
    z.truncate = true;
    CHECK(score(&s, dir, line, &z, &err) && s.truncated == 1 && s.l[1].n_tokens == s.l[0].n_tokens);
    scored_close(&s);
    snprintf(line, 8192, "{\"context\":\"a\",\"continuation\":\"%s\"}\n", x);
    CHECK(!score(&s, dir, line, &z, &err));
    CHECK_MSG(strstr(err.msg, "q.jsonl:1: the continuation has 2"), "%s", err.msg);
    scored_close(&s);
    free(line);
    free(x);
}

/* The right answers, each alone in a window of 36 bytes: what is read is what is asked. */
static const char *put_answers(void) {
    enum { WINDOW = 36 };
    Questions q;
    Err err;
    BUG_ON(questions_load(&q, "tests/trainer/data/cloze.jsonl", &err));
    char *text = xmalloc((size_t)q.n * WINDOW + 2);
    memset(text, '\n', (size_t)q.n * WINDOW + 1);
    text[q.n * WINDOW + 1] = 0;
    for (int i = 0; i < q.n; i++) {
        char line[WINDOW + 1];
        int n = snprintf(line, sizeof line, "%s %s", q.items[i].query, q.items[i].choices[0]);
        BUG_ON(n > WINDOW);
        memcpy(text + WINDOW * i, line, (size_t)n);
    }
    const char *path = put("answers.txt", text);
    questions_free(&q);
    free(text);
    return path;
}

TEST(zero_shot_of_what_was_learnt_by_heart_is_all_right) {
    static const char config[] =
        "{\"model_type\":\"noised\",\"vocab_size\":257,\"hidden_size\":32,\"num_hidden_layers\":1,"
        "\"num_attention_heads\":2,\"num_key_value_heads\":2,\"head_dim\":16,\"max_position_embeddings\":64,"
        "\"norm\":\"layernorm\",\"norm_eps\":1e-5,\"position\":\"learned\",\"rope_theta\":10000,\"bias\":false,"
        "\"tie_word_embeddings\":true,\"mlp\":{\"activation\":\"gelu\",\"gated\":false,\"intermediate_size\":64},"
        "\"attention\":{\"kind\":\"symmetric\"},\"noise\":{\"scope\":\"head\",\"density\":\"gaussian\"},"
        "\"bos_token_id\":0,\"eos_token_id\":0,\"torch_dtype\":\"float32\"}";
    const char *dir = test_dir();
    const char *path = put("config.json", config);
    const char *answers = put_answers();
    char args[1024];
    snprintf(
        args, sizeof args,
        "pretrain --data %s --val none --config %s --out %s/run --window 36 --steps 250 --batch 20 --lr 5e-3 --seed 1",
        answers, path, dir);
    trainer_done(args);
    snprintf(args, sizeof args,
             "score --model %s/run --task tests/trainer/data/questions.jsonl tests/trainer/data/cloze.jsonl", dir);
    ChildResult r = trainer_run(args);
    CHECK_MSG(r.status == 0 &&
                  strstr(r.output, "{\"task\":\"questions\",\"n\":20,\"acc\":1,\"acc_stderr\":0,\"acc_norm\":1,") &&
                  strstr(r.output, "\"chance\":0.25,\"majority\":0.25,\"truncated\":0,\"noise_seed\":0") &&
                  strstr(r.output, "{\"task\":\"cloze\",\"n\":20,\"acc\":1,\"acc_stderr\":0,\"perplexity\":1."),
              "%s", r.output);
    free(r.output);
}

TEST(zero_shot_without_a_delimiter) {
    const char *dir = test_checkpoint(CHECKPOINT_SMALL);
    char *results[2];
    for (int i = 0; i < 2; i++) {
        const char *path =
            put("q.jsonl", test_text("{\"context\":\"the sea and\",\"continuation\":\"%sa ship\"}", i ? " " : ""));
        ChildResult r = trainer_run(test_text("score --model %s --task %s%s", dir, path, i ? " --delimiter=" : ""));
        CHECK_MSG(r.status == 0, "%s", r.output);
        results[i] = r.output;
    }
    CHECK_MSG(!strcmp(results[0], results[1]), "%s%s", results[0], results[1]);
    free(results[0]);
    free(results[1]);
}

TEST(zero_shot_command_refuses) {
    static const struct {
        const char *args, *says;
        int status;
    } cases[] = {
        {"score --model %s", "--task is missing", 2},
        {"score --task tests/trainer/data/cloze.jsonl", "--model is missing", 2},
        {"score --model /no/dir --task tests/trainer/data/cloze.jsonl", "/no/dir", 1},
        {"score --model %s --task /no/file", "/no/file: No such file", 1},
        {"score --model %s --task tests/trainer/data/cloze.jsonl tests/trainer/test_zero_shot.c",
         "test_zero_shot.c:1:", 1},
    };
    const char *dir = test_checkpoint(CHECKPOINT_SMALL);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        const char *at = strstr(cases[i].args, "%s");
        const char *args =
            test_text("%.*s%s%s", at ? (int)(at - cases[i].args) : 999, cases[i].args, at ? dir : "", at ? at + 2 : "");
        ChildResult r = trainer_run(args);
        CHECK_MSG(r.status == cases[i].status && strstr(r.output, cases[i].says), "%s: %d, %s", args, r.status,
                  r.output);
        CHECK(!strstr(r.output, "\"acc\"")); /* nothing is scored before all is read */
        free(r.output);
    }
}
