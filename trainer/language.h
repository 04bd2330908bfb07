/* language: the objective of `pretrain`, the next token of texts or a masked one (micro_batch.h). Every step is a line
 * of the log (runlog.h); now and then held-out text is evaluated, a text drawn, and the run saved.
 *
 * The weights of the lowest loss on the same 64 held-out windows are kept in --out/best: a folder that can be served,
 * without what a resumed run needs. The log says of a step that it was the best then:
 *     {"step":400, ..., "best":3.21} */
#ifndef NOISED_LANGUAGE_H
#define NOISED_LANGUAGE_H

#include "trainer/run.h"

/* Goes on to --steps, after saving once, so that a folder that cannot be written is noticed first. 0 when done, the
 * signal's number when one came (the run is saved then), -1 on error. */
int language_train(Run *r, Err *err);

#endif
