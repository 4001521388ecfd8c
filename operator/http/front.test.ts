import { Registry } from 'prom-client';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createMemoryLogger } from '../telemetry/testing/memory-logger.ts';
import { HttpFront } from './front.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import { testSettings } from './testing/test-server.ts';

let front: HttpFront;
let url: string;

beforeEach(async () => {
  const idle = (_: unknown, response: { end(text: string): void }) => response.end('idle');
  front = new HttpFront(
    new Registry(),
    createMemoryLogger(),
    { ...DEFAULT_LIMITS, stopGraceMs: 200 },
    { main: idle, probe: idle },
  );
  const { main } = await front.listen(testSettings().http);
  url = `http://127.0.0.1:${main.port}`;
});
afterEach(async () => {
  await front.close();
});

const text = async (): Promise<string> => (await fetch(url)).text();

test('a request that is under way when a process steps down is lost, or goes on for ever', async () => {
  const waiting: { end(text: string): void }[] = [];
  const arrived = Promise.withResolvers<void>();
  front.serve({
    main: (request, response) => {
      if (request.url === '/') {
        response.end('leader');
        return;
      }
      waiting.push(response);
      if (waiting.length === 2) arrived.resolve();
    },
    probe: () => undefined,
  });
  expect(await text()).toBe('leader');
  const [finished, cut] = [fetch(`${url}/finished`), fetch(`${url}/cut`)];
  const outcome = cut.then(
    () => 'answered',
    () => 'cut',
  );
  await arrived.promise;
  const left = front.leave();
  expect(await text()).toBe('idle');
  waiting[0]?.end('done');
  await left;
  expect(await outcome).toBe('cut');
  expect(await (await finished).text()).toBe('done');
});
