import { expect, test } from 'vitest';
import type { Logger } from '../telemetry/logger.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { type Component, runComponents } from './components.ts';

const silent: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const around = { clock: systemClock, logger: silent };

function recorded(name: string, log: string[], failure?: Error): Component {
  return {
    name,
    run: async (signal) => {
      log.push(`start ${name}`);
      if (failure !== undefined) throw failure;
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve, { once: true });
      });
      log.push(`stop ${name}`);
    },
  };
}

test('the ledger closes before what still writes to it has ended', async () => {
  const log: string[] = [];
  const stop = new AbortController();
  const ended = runComponents(
    [recorded('ledger', log), recorded('windows', log)],
    stop.signal,
    around,
  );
  stop.abort();
  expect(await ended).toEqual({ kind: 'stopped' });
  expect(log).toEqual(['start ledger', 'start windows', 'stop windows', 'stop ledger']);
});

test('a part dies and the others go on as if nothing had happened', async () => {
  const log: string[] = [];
  const components = [recorded('ledger', log), recorded('lease', log, new Error('lost'))];
  const ended = await runComponents(components, new AbortController().signal, around);
  expect(ended).toEqual({ kind: 'failed', reason: 'lease: lost' });
  expect(log).toContain('stop ledger');
});
