/* provoke CPU ACTION:COUNT:INTERVAL_US…: interrupts CPU on purpose, each action COUNT times.
 *
 * It prints `ready PID` when all is prepared (PID is the process that belongs on CPU, 0 without one). For
 * each action it then waits for a line, acts, and prints `done COUNT`; it ends when its input ends. So
 * preparation and clean-up are outside the measured time. `provoke` alone lists the actions.
 *
 * The process that belongs on CPU shares the memory of its parent but is not its thread, so that it
 * can be in another cgroup: TLB flushes and barriers of one memory then cross the boundary of a shield.
 * It sleeps until the first action, and then computes and reads the clock; it makes no system calls except those
 * of an action. It shares errno too, so errno is not used after its start. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

struct action;
static struct job {
	const struct action *action;
	int count;
	long interval_us;
	int descriptor;
	char *pages; /* one for each repetition, and one more */
	volatile int done, state;
} jobs[16], *volatile job = jobs;
static int cpu;
static pid_t victim;
static struct job *volatile seen; /* the job that the victim reads */
static volatile int go; /* the job is active; before, its action only prepares itself */
static uint32_t word, begun;
static const size_t page = 4096;

static void die(const char *form, ...)
{
	va_list list;

	va_start(list, form);
	fprintf(stderr, "provoke: ");
	vfprintf(stderr, form, list);
	fprintf(stderr, ": %s\n", strerror(errno));
	exit(1);
}

static void must(long result, const char *what)
{
	if (result < 0)
		die("%s", what);
}

static void rest(void)
{
	struct timespec pause = { job->interval_us / 1000000, job->interval_us % 1000000 * 1000 };

	nanosleep(&pause, NULL);
}

static void tell(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	if (file < 0 || write(file, text, strlen(text)) < 0)
		die("%s <- %s", path, text);
	close(file);
}

static const char *serial_mask = "/proc/irq/4/smp_affinity_list";

static const char *number(int n)
{
	static char text[12];

	snprintf(text, sizeof text, "%d", n);
	return text;
}

static void run(const char *command)
{
	int status = system(command);

	if (status)
		die("%s ended with %d", command, status);
}

/* Waits in user mode, whatever the interval is. */
static void spin(void)
{
	uint64_t end = __rdtsc() + (uint64_t)job->interval_us * 1000;

	while (__rdtsc() < end)
		;
}

/* ---- by another process of the same memory ------------------------------------------------------ */
static void membarrier(int command)
{
	must(syscall(SYS_membarrier, command, 0, 0), "membarrier");
}
static void barriers(int prepare, int command)
{
	if (!go)
		membarrier(prepare);
	else
		membarrier(command);
}
static void membarrier_private(void)
{
	barriers(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}
static void membarrier_global(void)
{
	barriers(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}
static void membarrier_code(void)
{
	barriers(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE,
		 MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
}
static void membarrier_rseq(void)
{
	barriers(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ,
		 MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
}

static void tlb_madvise(void)
{
	job->pages[0] = 1;
	if (go)
		must(madvise(job->pages, page, MADV_DONTNEED), "madvise");
}
static void tlb_munmap(void)
{
	char *end = job->pages + (job->count - job->done) * page;

	if (!go)
		memset(job->pages, 1, (job->count + 1) * page);
	else
		must(munmap(end, page), "munmap");
}
static void tlb_mprotect(void)
{
	if (!go)
		memset(job->pages, 1, (job->count + 1) * page);
	else
		must(mprotect(job->pages + job->done * page, page, PROT_READ), "mprotect");
}

static void signal_kill(void)
{
	if (go)
		must(kill(victim, SIGUSR1), "kill");
}
static void signal_queue(void)
{
	union sigval value = { 0 };

	if (go)
		must(sigqueue(victim, SIGUSR1, value), "sigqueue");
}

/* ---- by any process --------------------------------------------------------------------------------- */
static int perf_open(uint64_t config, uint64_t period_ns, uint32_t wakeup)
{
	struct perf_event_attr what = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof what, .config = config,
		.sample_period = period_ns, .sample_type = PERF_SAMPLE_TIME, .wakeup_events = wakeup,
		.disabled = 1,
	};
	int file = syscall(SYS_perf_event_open, &what, -1, cpu, -1, 0);

	must(file, "perf_event_open");
	return file;
}
static void perf_read(void)
{
	uint64_t value;

	if (!go) {
		job->descriptor = perf_open(PERF_COUNT_SW_CPU_CLOCK, 0, 0);
		must(ioctl(job->descriptor, PERF_EVENT_IOC_ENABLE, 0), "PERF_EVENT_IOC_ENABLE");
	} else {
		must(read(job->descriptor, &value, sizeof value), "read");
	}
}
/* One action makes all of them: the clock interrupts by itself until it is disabled. */
static void perf_samples(uint32_t wakeup)
{
	uint64_t size = 16;
	struct perf_event_mmap_page *head;

	if (!go) {
		job->descriptor = perf_open(PERF_COUNT_SW_CPU_CLOCK, job->interval_us * 1000, wakeup);
		job->pages = mmap(NULL, (size + 1) * page, PROT_READ | PROT_WRITE, MAP_SHARED, job->descriptor, 0);
		if (job->pages == MAP_FAILED)
			die("mmap of a perf event");
		return;
	}
	head = (void *)job->pages;
	must(ioctl(job->descriptor, PERF_EVENT_IOC_ENABLE, 0), "PERF_EVENT_IOC_ENABLE");
	usleep(job->interval_us * job->count);
	must(ioctl(job->descriptor, PERF_EVENT_IOC_DISABLE, 0), "PERF_EVENT_IOC_DISABLE");
	/* A record of PERF_SAMPLE_TIME is a header and a time: 16 bytes. */
	job->done = head->data_head / 16;
}
static void perf_clock(void) { perf_samples(1 << 20); }
static void perf_wakeup(void) { perf_samples(1); }

static void device(const char *module, int offset)
{
	char text[64];
	uint64_t value[2];

	if (!go) {
		snprintf(text, sizeof text, "modprobe %s", module);
		run(text);
		snprintf(text, sizeof text, "/dev/cpu/%d/%s", cpu, module);
		for (int i = 0; i < 100 && access(text, R_OK); i++)
			usleep(20000);
		job->descriptor = open(text, O_RDONLY);
		must(job->descriptor, text);
	} else {
		must(pread(job->descriptor, value, *module == 'm' ? 8 : 16, offset), module);
	}
}
static void msr(void) { device("msr", 0x1b); }
static void cpuid(void) { device("cpuid", 0); }

static void vmstat(void)
{
	char text[4096];

	if (!go)
		job->descriptor = open("/proc/sys/vm/stat_refresh", O_RDONLY);
	else
		must(pread(job->descriptor, text, sizeof text, 0), "/proc/sys/vm/stat_refresh");
	must(job->descriptor, "/proc/sys/vm/stat_refresh");
}
static void tracepoint(void)
{
	const char *file = "/sys/kernel/tracing/events/block/block_plug/enable";

	/* Once before counting: the very first event makes the kernel enlarge its buffers. */
	tell(file, "1");
	tell(file, "0");
}
static void static_key(void)
{
	if (!go)
		return;
	tell("/proc/sys/kernel/sched_schedstats", "1");
	tell("/proc/sys/kernel/sched_schedstats", "0");
}
static void stop_machine(void)
{
	const char *file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

	if (go)
		tell(file, job->done % 2 ? "tsc" : "hpet");
}
static void nmi(void)
{
	if (go)
		tell("/proc/sysrq-trigger", "l");
}
static void hotplug(void)
{
	if (!go)
		return;
	tell("/sys/devices/system/cpu/cpu1/online", "0");
	tell("/sys/devices/system/cpu/cpu1/online", "1");
}
static void module(void)
{
	if (!go)
		return;
	run("modprobe dummy numdummies=0");
	run("rmmod dummy");
}
/* Output on an unconnected serial line comes back as an interrupt. */
static void serial(void)
{
	if (!go) {
		tell(serial_mask, number(cpu));
		job->descriptor = open("/dev/ttyS0", O_WRONLY | O_NOCTTY);
	} else {
		must(write(job->descriptor, "\n", 1), "/dev/ttyS0");
	}
	must(job->descriptor, "/dev/ttyS0");
}
/* The poll for machine checks is a timer of each CPU's own wheel, with a period in seconds. */
static void machine_check(void)
{
	const char *file = "/sys/devices/system/machinecheck/machinecheck0/check_interval";

	if (!go)
		return;
	tell(file, "1");
	usleep(job->interval_us);
	tell(file, "0");
}

/* ---- by itself, on that CPU --------------------------------------------------------------------- */
static void handled(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)info;
	if (number == SIGFPE || number == SIGILL)
		registers[REG_RIP] += 2; /* both instructions are two bytes long */
	job->done++;
}
static void fault_write(void) { job->pages[job->done++ * page] = 1; }
static void fault_read(void)
{
	(void)*(volatile char *)(job->pages + job->done++ * page);
}
static void system_call(void)
{
	syscall(SYS_getppid);
	job->done++;
}
/* New credentials: the kernel frees the old ones by an RCU callback of this CPU. */
static void rcu(void)
{
	syscall(SYS_setgid, 0);
	job->done++;
}
/* The kernel writes to a page that does not exist yet. */
static void fault_kernel(void)
{
	must(read(job->descriptor, job->pages + job->done * page, 1), "/dev/zero");
	job->done++;
}
static void breakpoint(void) { asm volatile("int3"); }
static void divide(void)
{
	asm volatile("divl %%ecx" ::"a"(1), "d"(0), "c"(0));
}
static void illegal(void) { asm volatile("ud2"); }
/* The kernel answers instead of the processor (arch/x86/kernel/umip.c), and sends no signal. */
static void emulated(void)
{
	char table[10];

	asm volatile("sgdt %0" : "=m"(table));
	job->done++;
}
static void sleeps(void)
{
	rest();
	job->done++;
}
static void disk(void)
{
	must(pread(job->descriptor, job->pages, page, (off_t)page * 256 * (job->done + 1)), "pread");
	job->done++;
}
/* Timers expire by themselves; an action without one continues. */
static void itimer(int which)
{
	struct itimerval every = { { 0, job->interval_us }, { 0, job->interval_us } }, never = { 0 };

	if (!job->state) {
		job->state = 1;
		setitimer(which, &every, NULL);
	} else if (job->done >= job->count) {
		job->state = 2;
		setitimer(which, &never, NULL);
	}
}
static void itimer_real(void) { itimer(ITIMER_REAL); }
static void itimer_prof(void) { itimer(ITIMER_PROF); }
static void posix_timer(clockid_t clock)
{
	struct timespec interval = { 0, job->interval_us * 1000 };
	struct itimerspec every = { interval, interval }, never = { 0 };
	struct sigevent how = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	static int timer;

	if (!job->state) {
		job->state = 1;
		syscall(SYS_timer_create, clock, &how, &timer);
		syscall(SYS_timer_settime, timer, 0, &every, NULL);
	} else if (job->done >= job->count) {
		job->state = 2;
		syscall(SYS_timer_settime, timer, 0, &never, NULL);
	}
}
static void timer_real(void) { posix_timer(CLOCK_MONOTONIC); }
static void timer_cpu(void) { posix_timer(CLOCK_THREAD_CPUTIME_ID); }

/* ---- by a task that sleeps there, in addition to the workload -------------------------------------------- */
static void futex_wait(void)
{
	syscall(SYS_futex, &word, FUTEX_WAIT, job->done, NULL, NULL, 0);
}
static void futex_wake(void)
{
	if (!go)
		return;
	word = job->done + 1;
	syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
static void eventfd_wait(void)
{
	uint64_t value;

	if (read(job->descriptor, &value, sizeof value) < 0)
		sched_yield();
}
static void eventfd_wake(void)
{
	uint64_t one = 1;

	if (go)
		must(write(job->descriptor, &one, sizeof one), "write to an eventfd");
}
static void fifo_wake(void)
{
	struct sched_param priority = { .sched_priority = 10 };

	if (!go)
		must(sched_setscheduler(victim, SCHED_FIFO, &priority), "sched_setscheduler");
	futex_wake();
}
/* The idle CPU keeps the memory map of its last task until page tables of that memory are freed. */
static void tlb_lazy(void)
{
	const size_t huge = 2 << 20;
	char *region = (char *)(((uintptr_t)job->pages + huge - 1) & ~(huge - 1)) + job->done * huge;

	if (!go)
		return;
	futex_wake();
	usleep(2000);
	must(munmap(region, huge), "munmap");
}
/* A time-out of a socket is one of the few sleeps that the timer wheel ends. */
static void wheel(void)
{
	char byte;

	if (job->done >= job->count)
		pause();
	while (!go)
		syscall(SYS_futex, &go, FUTEX_WAIT, 0, NULL, NULL, 0);
	recv(job->descriptor, &byte, 1, 0);
	job->done++;
}

enum where {
	OUTSIDE, /* the parent acts, and no process of provoke is on the CPU */
	BESIDE,  /* the parent acts on a spinner of its memory */
	INSIDE,  /* the process on the CPU acts, between computing */
	SLEEPER, /* the parent wakes a process that sleeps on the CPU */
	IDLE,    /* the same, and what counts is what is done to its memory while it sleeps */
	ALONE,   /* a process that sleeps on the CPU acts */
};
static const struct action {
	const char *name;
	enum where where;
	void (*act)(void);
	void (*sleep)(void);
} actions[] = {
	{ "membarrier-private", BESIDE, membarrier_private, NULL },
	{ "membarrier-global", BESIDE, membarrier_global, NULL },
	{ "membarrier-code", BESIDE, membarrier_code, NULL },
	{ "membarrier-rseq", BESIDE, membarrier_rseq, NULL },
	{ "tlb-madvise", BESIDE, tlb_madvise, NULL },
	{ "tlb-munmap", BESIDE, tlb_munmap, NULL },
	{ "tlb-mprotect", BESIDE, tlb_mprotect, NULL },
	{ "signal-kill", BESIDE, signal_kill, NULL },
	{ "signal-queue", BESIDE, signal_queue, NULL },
	{ "perf-read", OUTSIDE, perf_read, NULL },
	{ "perf-clock", OUTSIDE, perf_clock, NULL },
	{ "perf-wakeup", OUTSIDE, perf_wakeup, NULL },
	{ "msr", OUTSIDE, msr, NULL },
	{ "cpuid", OUTSIDE, cpuid, NULL },
	{ "vmstat", OUTSIDE, vmstat, NULL },
	{ "tracepoint", OUTSIDE, tracepoint, NULL },
	{ "static-key", OUTSIDE, static_key, NULL },
	{ "stop-machine", OUTSIDE, stop_machine, NULL },
	{ "nmi", OUTSIDE, nmi, NULL },
	{ "hotplug", OUTSIDE, hotplug, NULL },
	{ "module", OUTSIDE, module, NULL },
	{ "serial", OUTSIDE, serial, NULL },
	{ "machine-check", OUTSIDE, machine_check, NULL },
	{ "fault-write", INSIDE, fault_write, NULL },
	{ "fault-read", INSIDE, fault_read, NULL },
	{ "fault-copy", INSIDE, fault_write, NULL },
	{ "fault-kernel", INSIDE, fault_kernel, NULL },
	{ "rcu", INSIDE, rcu, NULL },
	{ "system-call", INSIDE, system_call, NULL },
	{ "breakpoint", INSIDE, breakpoint, NULL },
	{ "divide", INSIDE, divide, NULL },
	{ "illegal", INSIDE, illegal, NULL },
	{ "emulated", INSIDE, emulated, NULL },
	{ "sleeps", INSIDE, sleeps, NULL },
	{ "disk", INSIDE, disk, NULL },
	{ "itimer-real", INSIDE, itimer_real, NULL },
	{ "itimer-prof", INSIDE, itimer_prof, NULL },
	{ "timer-real", INSIDE, timer_real, NULL },
	{ "timer-cpu", INSIDE, timer_cpu, NULL },
	{ "futex", SLEEPER, futex_wake, futex_wait },
	{ "eventfd", SLEEPER, eventfd_wake, eventfd_wait },
	{ "fifo", SLEEPER, fifo_wake, futex_wait },
	{ "tlb-lazy", IDLE, tlb_lazy, futex_wait },
	{ "wheel", ALONE, NULL, wheel },
};

static void *memory(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("mmap");
	return at;
}

/* Actions that the process on the CPU must not do by itself. */
static void prepare(void)
{
	const char *name = job->action->name;
	struct timeval timeout = { 0, job->interval_us };
	int pair[2];

	job->pages = memory((job->count + 1) * page);
	madvise(job->pages, (job->count + 1) * page, MADV_NOHUGEPAGE);
	if (!strcmp(name, "fault-copy")) { /* the page of zeros is what is copied */
		for (int i = 0; i < job->count; i++)
			(void)*(volatile char *)(job->pages + i * page);
	} else if (!strcmp(name, "disk")) {
		job->pages[0] = 1;
		job->descriptor = open("/dev/vda", O_RDONLY | O_DIRECT);
		must(job->descriptor, "/dev/vda");
	} else if (!strcmp(name, "fault-kernel")) {
		job->descriptor = open("/dev/zero", O_RDONLY);
		must(job->descriptor, "/dev/zero");
	} else if (!strcmp(name, "tlb-lazy")) {
		job->pages = memory((size_t)(job->count + 2) << 21);
		madvise(job->pages, (size_t)(job->count + 2) << 21, MADV_NOHUGEPAGE);
		for (size_t at = 0; at < (size_t)(job->count + 2) << 21; at += 1 << 20)
			job->pages[at] = 1;
	} else if (!strcmp(name, "eventfd")) {
		job->descriptor = eventfd(0, 0);
	} else if (!strcmp(name, "wheel")) {
		must(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), "socketpair");
		job->descriptor = pair[0];
		setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
	}
}

static int lives(void *unused)
{
	(void)unused;
	/* A busy CPU answers slowly in emulation, and verify needs many answers before it begins. */
	if (!job->action->sleep)
		while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE))
			syscall(SYS_futex, &begun, FUTEX_WAIT, 0, NULL, NULL, 0);
	for (;;) {
		const struct action *action;

		seen = job;
		if (job->action->sleep)
			job->action->sleep();
		else
			spin();
		action = job->action;
		/* Timers get one more signal to stop. */
		if (action->where == INSIDE && go && (job->done < job->count || job->state == 1))
			action->act();
	}
	return 0;
}

static void start(void)
{
	size_t size = 1 << 16;
	char *stack = memory(size);

	memset(stack, 0, size);
	victim = clone(lives, stack + size, CLONE_VM | SIGCHLD, NULL);
	must(victim, "clone");
}

/* How often the kernel has taken the process off its CPU: it wakes up as often. Two wakes that come while it
 * is on its way are one; and if its CPU's other task has its turn meanwhile, it comes back once more. */
static int switches(void)
{
	char name[64], line[128];
	int sum = 0, n;
	FILE *file;

	snprintf(name, sizeof name, "/proc/%d/status", victim);
	file = fopen(name, "r");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "voluntary_ctxt_switches: %d", &n) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %d", &n) == 1)
			sum += n;
	if (file)
		fclose(file);
	return sum;
}

static void act(void)
{
	int before = job->done;

	job->action->act();
	if (job->action->act == signal_kill || job->action->act == signal_queue)
		for (int i = 0; i < 1000 && job->done == before; i++) /* its handler counts */
			usleep(1000);
	else if (job->action->act != perf_clock && job->action->act != perf_wakeup)
		job->done++;
}

static void wanted(const char *text)
{
	char name[32];

	if (sscanf(text, "%31[^:]:%d:%ld", name, &job->count, &job->interval_us) != 3)
		die("%s is no ACTION:COUNT:INTERVAL_US", text);
	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
		if (!strcmp(name, actions[i].name))
			job->action = &actions[i];
	if (!job->action)
		die("no action %s (provoke alone lists them)", name);
}

int main(int argc, char **argv)
{
	struct sigaction how = { .sa_sigaction = handled, .sa_flags = SA_SIGINFO };
	const int numbers[] = { SIGUSR1, SIGALRM, SIGPROF, SIGTRAP, SIGFPE, SIGILL };
	char line[16];

	if (argc < 3 || argc > 18) {
		for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
			puts(actions[i].name);
		return argc > 1;
	}
	cpu = atoi(argv[1]);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaction(numbers[i], &how, NULL);
	for (int i = 2; i < argc; i++, job++) {
		wanted(argv[i]);
		prepare();
	}
	job = jobs;
	if (job->action->where != OUTSIDE)
		start();
	for (int i = 2; i < argc; i++, job++)
		if (job->action->act && job->action->where != INSIDE)
			job->action->act();
	job = jobs;
	printf("ready %d\n", victim);
	fflush(stdout);
	for (int i = 2; i < argc && fgets(line, sizeof line, stdin); i++) {
		job = jobs + i - 2;
		if (i == 2) {
			__atomic_store_n(&begun, 1, __ATOMIC_RELEASE);
			syscall(SYS_futex, &begun, FUTEX_WAKE, 1, NULL, NULL, 0);
			usleep(100000);
		}
		/* It must have finished the previous job, or its next action would count for both. */
		while (victim && job->action->where == INSIDE && seen != job)
			usleep(1000);
		int before = switches();
		go = 1;
		syscall(SYS_futex, &go, FUTEX_WAKE, 1, NULL, NULL, 0);
		while (job->done < job->count) {
			if (job->action->where == INSIDE || job->action->where == ALONE)
				rest();
			else
				act(), rest();
		}
		while (job->state == 1) /* its timer still expires */
			usleep(1000);
		usleep(50000); /* the after-effects of the last one belong to it */
		go = 0;
		printf("done %d\n", job->action->where == SLEEPER ? switches() - before : job->done);
		fflush(stdout);
	}
	while (fgets(line, sizeof line, stdin))
		;
	if (jobs[0].action->act == serial)
		tell(serial_mask, "0");
	if (victim) {
		kill(victim, SIGKILL);
		waitpid(victim, NULL, 0);
	}
	return 0;
}
