/* choice: one job of the engine read back as text. Tokens are taken as they come; text, log-probabilities and token ids
 * are handed on once nothing that comes later can change them, so pieces sent early and an answer sent whole agree. */
#ifndef NOISED_CHOICE_H
#define NOISED_CHOICE_H

#include "tokenizer/text_stream.h"
#include "server/api/completions/calls.h"
#include "server/engine/engine.h"

/* One token of the answer: of the prompt too when echo and logprobs are asked for. */
typedef struct Slot {
    int id;
    const JobToken *token; /* borrowed from the job; NULL for a token that nobody predicted */
    size_t offset;         /* code points of text before it */
} Slot;

/* What the choices of a request have in common; borrowed. */
typedef struct ChoiceRules {
    const Tokenizer *tokenizer;
    const StopSet *stop;
    const char *prefix;                    /* of every text; NULL: none */
    FormScratch *scratch;                  /* where stop strings end a text only where its form may: else NULL */
    const CallStyle *style;                /* in which the text may call functions; NULL: it calls none */
    const struct PreviousAnswer *previous; /* by the choice's index, or NULL */
    int min_tokens;
    int from;              /* the first so many generated tokens, and what they settle, count as sent */
    int n_top, prompt_top; /* alternatives to print per token, at most the job's; prompt_top -1: no prompt_logprobs */
    bool echo, logprobs, token_ids;
    bool one_by_one;         /* choice_advance takes one token at most */
    bool tokens_as_ids;      /* log-probabilities call a token "token_id:7" */
    bool only_scored;        /* echo: not what is in front of job->score_from */
    bool answer_spaced;      /* the tokens of the job's trie begin with a space that is not the text's */
    bool keep_stop, special; /* in the text: what stopped it; special tokens */
} ChoiceRules;

typedef struct Choice {
    Job *job; /* owned */
    const ChoiceRules *rules;
    int n_hidden; /* leading prompt tokens that echo does not print */
    TextStream text;
    Calls calls;    /* with rules->style: its settled part, read */
    FormWalk *walk; /* with rules->scratch: along the text, and */
    Buffer ends;    /* whether it may end, place by place (TextStream) */
    Slot *slots;    /* [n_slots], kept when log-probabilities or token ids are wanted */
    int n_slots;
    int n_scored; /* tokens of the prompt with log-probabilities, once prompt_done */
    bool prompt_done, strip_space;
    int n_read; /* generated tokens that belong to the answer so far */
    Finish finish;
    size_t text_sent;
    int slots_sent, events_sent; /* the latter: of a form with events of its own */
    bool begun, finish_sent;     /* anything was sent; the end was */
} Choice;

int choice_open(Choice *c, Job *job, const ChoiceRules *rules, int n_hidden); /* -1 when memory runs out */
void choice_close(Choice *c);                                                 /* cancels the job if it still runs */

/* Takes what the engine has pushed, or, one by one, its next token: then call it until n_read stays. Afterwards
 * c->finish says whether the choice is complete (FINISH_STOP after a stop string too: the job is then cancelled). When
 * memory runs out c->text.text.failed is set: the choice is not whole. */
void choice_advance(Choice *c);

/* "stop", "tool_calls" or "length"; NULL before the end. */
const char *choice_finish_name(const Choice *c);

/* The slots from slots_sent on whose offset is final: their number. */
int choice_settled_slots(const Choice *c);

/* Whether anything has settled since choice_mark_sent. */
bool choice_has_news(const Choice *c);
bool choice_has_text(const Choice *c); /* text or slots, and not the end alone */
void choice_mark_sent(Choice *c);

double choice_mean_logprob(const Choice *c); /* of the generated tokens; 0 when there are none */

#endif
