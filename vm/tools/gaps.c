/* gaps FLAG: reads the clock in a loop and detects gaps. FLAG is a file of one byte that another process
 * writes: 0 wait, 1 count, 2 report and end. This sampler shares no code with the program under test.
 * It reports the time of one clock read, the number of gaps of 1 us or more, their total and the longest. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	int file = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	volatile char *flag = mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
	uint64_t begin, last, threshold, looks = 0, gaps = 0, sum = 0, longest = 0;
	double ticks_per_us, a;

	if (file < 0 || flag == MAP_FAILED || mlockall(MCL_CURRENT | MCL_FUTURE)) {
		perror("gaps FLAG");
		return 2;
	}
	a = seconds();
	begin = __rdtsc();
	while (seconds() - a < 0.2)
		;
	ticks_per_us = (__rdtsc() - begin) / ((seconds() - a) * 1e6);
	threshold = ticks_per_us;
	while (*flag == 0)
		;
	begin = last = __rdtsc();
	while (*flag == 1) {
		uint64_t now = __rdtsc(), away = now - last;

		looks++;
		if (away >= threshold) {
			gaps++;
			sum += away;
			if (away > longest)
				longest = away;
		}
		last = now;
	}
	printf("seconds=%.3f look_ns=%.1f gaps=%llu lost_us=%.1f longest_us=%.1f\n", (last - begin) / ticks_per_us / 1e6,
	       (last - begin - sum) / ticks_per_us * 1e3 / (looks ? looks : 1), (unsigned long long)gaps,
	       sum / ticks_per_us, longest / ticks_per_us);
	return 0;
}
