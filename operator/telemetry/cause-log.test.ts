import { expect, test } from 'vitest';
import { createMemoryLogger } from './testing/memory-logger.ts';
import { CauseLog } from './cause-log.ts';
import { createVirtualClock } from '../delivery/testing/virtual-clock.ts';

test('trouble that repeats takes one line a minute for each cause', async () => {
  const logger = createMemoryLogger();
  const clock = createVirtualClock();
  const log = new CauseLog(logger, clock);
  for (let second = 0; second < 61; second += 1) {
    log.warn('refused', 'connection refused');
    if (second === 5) log.warn('timeout', 'timed out');
    await clock.pass(1000);
  }
  expect(logger.lines).toStrictEqual([
    'warn connection refused',
    'warn timed out',
    'warn connection refused (59 more like this)',
  ]);
});
