/* scheduling: what a thread asks of the kernel's scheduler, without any privilege. Where a kernel or sandbox forbids it
 * nothing changes but time. The calling thread's, for good. Which threads there are and which asks for what:
 * docs/architecture.md, Threads. */
#ifndef NOISED_SCHEDULING_H
#define NOISED_SCHEDULING_H

/* Computes where nobody else wants the core, and gives it up at once (SCHED_IDLE). A nice value alone does not do
 * that: who is woken still waits for a thread of nice 19 until its slice or the clock's tick is over, up to 4 ms. */
void scheduling_idle(void);

/* Computes little but often, and is to be on a core soon after it is woken: asks for the shortest slice (Linux 6.12
 * and later), which goes before the longer one of who computes there. */
void scheduling_prompt(void);

#endif
