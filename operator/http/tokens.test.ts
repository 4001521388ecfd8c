import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Clock } from '../telemetry/clock.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { createMemoryLogger } from '../telemetry/testing/memory-logger.ts';
import { newKey } from './portal/testing/keys.ts';
import { startTestServer, testSettings } from './testing/test-server.ts';
import { TokenSource } from './tokens.ts';

const MINUTE = 60_000;

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-tokens-'));
});
afterEach(() => rm(directory, { recursive: true }));

async function open(texts: { readonly api: string; readonly ingest?: string }) {
  const [api, ingest] = [join(directory, 'api'), join(directory, 'ingest')];
  await writeFile(api, texts.api);
  if (texts.ingest !== undefined) await writeFile(ingest, texts.ingest);
  const { http } = testSettings({
    API_TOKEN: '',
    INGEST_TOKEN: '',
    API_TOKEN_FILE: api,
    ...(texts.ingest !== undefined && { INGEST_TOKEN_FILE: ingest }),
  });
  let monotonic = 0;
  const clock: Clock = { ...systemClock, monotonic: () => monotonic };
  const source = new TokenSource(() => http, clock, createMemoryLogger());
  await source.open();
  return {
    api,
    ingest,
    source,
    /** Lets time pass, and looks. */
    pass: (ms: number) => {
      monotonic += ms;
      return source.poll();
    },
    good: () => source.current().apiTokens.map((token) => token.reveal()),
  };
}

describe('a token file that changes', () => {
  test('is read without a restart, and what it lost is good for five minutes more', async () => {
    const { api, pass, good } = await open({ api: 'old-token-1\n' });
    expect(good()).toStrictEqual(['old-token-1']);
    await writeFile(api, 'new-token-2\n');
    expect(await pass(10_000)).toStrictEqual([]);
    expect(good()).toStrictEqual(['new-token-2', 'old-token-1']);
    await pass(5 * MINUTE - 1);
    expect(good()).toContain('old-token-1');
    await pass(1);
    expect(good()).toStrictEqual(['new-token-2']);
  });

  test('and changes back keeps the token for good', async () => {
    const { api, pass, good } = await open({ api: 'one-1,two-2' });
    await writeFile(api, 'one-1');
    await pass(MINUTE);
    await writeFile(api, 'two-2\none-1\n');
    await pass(MINUTE);
    await pass(10 * MINUTE);
    expect(good()).toStrictEqual(['two-2', 'one-1']);
  });

  test.each(['', '\n \n', 'with a space', 'one,,two', 'x'.repeat(70_000)])(
    'to what cannot be used (%#) changes nothing, and no token is in the message',
    async (text) => {
      const { api, pass, good } = await open({ api: 'old-token-1' });
      await writeFile(api, text);
      const [problem] = await pass(10_000);
      expect(problem).toContain('API_TOKEN_FILE: ');
      expect(problem).not.toContain('with a space');
      await pass(10 * MINUTE);
      expect(good()).toStrictEqual(['old-token-1']);
    },
  );

  test('or goes away changes nothing', async () => {
    const { api, pass, good } = await open({ api: 'old-token-1' });
    await rm(api);
    expect(await pass(10 * MINUTE)).toStrictEqual([
      `API_TOKEN_FILE: cannot be read: "${api}": ENOENT; mount a readable file there`,
    ]);
    expect(good()).toStrictEqual(['old-token-1']);
  });

  test('gives a token of ingest its new scope at once', async () => {
    const own = await open({ api: 'api-1', ingest: 'push-1;tenants=acme\n' });
    await writeFile(own.ingest, 'push-1;tenants=globex\n');
    await own.pass(10_000);
    expect(own.source.current().ingestTokens).toMatchObject([{ tenants: ['globex'] }]);
  });
});

describe('a server with token files', () => {
  test('takes their tokens, those of API_TOKEN_FILE for ingest too where there is no other', async () => {
    const path = join(directory, 'api');
    await writeFile(path, 'file-token-4411\n');
    await using server = await startTestServer({
      environment: { API_TOKEN: '', INGEST_TOKEN: '', API_TOKEN_FILE: path },
    });
    const token = 'file-token-4411';
    expect((await server.call('GET', '/api/v1/status')).status).toBe(401);
    const status = await server.call('GET', '/api/v1/status', { token });
    expect([status.status, status.json]).toMatchObject([200, { warnings: [] }]);
    const pushed = await server.call('POST', '/api/v1/events', { token, body: {} });
    expect(pushed.status).toBe(400);
    expect(server.log.join('\n')).not.toContain('API_TOKEN is not set');
  });

  test('does not start without them, for reading would be open', async () => {
    const environment = { API_TOKEN: '', API_TOKEN_FILE: join(directory, 'absent') };
    await expect(startTestServer({ environment })).rejects.toThrow(
      'API_TOKEN_FILE: cannot be read',
    );
  });
});

test('PORTAL_KEYS_FILE: a key that is taken away is good for nothing from then on', async () => {
  const path = join(directory, 'portal');
  const [old, next] = [newKey(), newKey()];
  await writeFile(path, old);
  const { http } = testSettings({ PORTAL_KEYS_FILE: path });
  const source = new TokenSource(() => http, systemClock, createMemoryLogger());
  await source.open();
  const good = () => source.current().portalKeys.map((key) => `${key.reveal()}\n`);
  expect(good()).toStrictEqual([old]);
  await writeFile(path, `${next}${old}`);
  expect(await source.poll()).toStrictEqual([]);
  expect(good()).toStrictEqual([next, old]);
  await writeFile(path, next);
  expect(await source.poll()).toStrictEqual([]);
  expect(good()).toStrictEqual([next]);
  await writeFile(path, 'canary');
  const [problem = ''] = await source.poll();
  expect(problem).toContain('PORTAL_KEYS_FILE: not private keys in PEM');
  expect(problem).not.toContain('canary');
  expect(good()).toStrictEqual([next]);
});
