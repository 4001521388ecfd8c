import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createManualClock, type ManualClock } from './testing/manual-clock.ts';
import { type ReflectorRig, startReflector } from './testing/reflector-rig.ts';
import { type ScriptedApiServer, startScriptedApiServer } from './testing/scripted-api-server.ts';

let server: ScriptedApiServer;
let clock: ManualClock;
let rig: ReflectorRig;
/** The newest version that the server has sent. */
let newest = 0;

const pod = (name: string) => ({ namespace: 'a', name, status: { phase: 'Running' } });
const RELEASED_MS = 5_000;

beforeEach(async () => {
  server = await startScriptedApiServer();
  server.put(pod('gone'));
  server.put(pod('later'));
  clock = createManualClock();
  rig = await startReflector(server, { clock, random: () => 0 });
  await server.until(() => server.openWatches === 1);
  server.put(pod('first'));
  await rig.handler.received('upserted', 'first');
  // What arrives within a second after a list counts as old.
  await clock.advance(RELEASED_MS);
  newest = Number(rig.source.resourceVersion());
});

afterEach(async () => {
  await rig.stop();
  await server.close();
});

/** Waits until the reflector has reached a version. */
async function reached(version: string): Promise<void> {
  while (rig.source.resourceVersion() !== version) await new Promise(setImmediate);
}

async function bookmark(): Promise<void> {
  server.silently(() => server.put(pod('elsewhere')));
  server.bookmark();
  await reached(String(++newest));
}
describe('a delayed connection', () => {
  test('W33: its changes may have happened at any time since the last arrival', async () => {
    await bookmark();
    const receivedAt = clock.now();
    await clock.advance(75_000);
    server.remove('a', 'gone');
    const first = await rig.handler.received('deleted', 'gone');
    expect(first.arrival.happened).toEqual({ from: receivedAt, until: clock.now() });
    server.remove('a', 'later');
    const second = await rig.handler.received('deleted', 'later');
    expect(second.arrival.happened).toEqual({ from: receivedAt, until: clock.now() });
  });

  test('its changes may be that old also when a bookmark arrives first', async () => {
    await bookmark();
    await clock.advance(40_000);
    server.put(pod('sign-of-life'));
    const { arrival } = await rig.handler.received('upserted', 'sign-of-life');
    expect(arrival.happened).toBeUndefined();
    newest += 1;
    const receivedAt = clock.now();
    await clock.advance(30_000);
    await bookmark();
    server.remove('a', 'gone');
    const gone = await rig.handler.received('deleted', 'gone');
    expect(gone.arrival.happened).toEqual({ from: receivedAt, until: clock.now() });
  });

  test('counts as live again when the delayed changes have arrived', async () => {
    await bookmark();
    await clock.advance(75_000);
    await bookmark();
    await clock.advance(RELEASED_MS);
    server.remove('a', 'gone');
    expect((await rig.handler.received('deleted', 'gone')).arrival.happened).toBeUndefined();
  });
});

describe('a connection on which little happens', () => {
  test('is live while its bookmarks come', async () => {
    for (let minute = 0; minute < 5; minute += 1) {
      await bookmark();
      await clock.advance(62_000);
    }
    server.remove('a', 'gone');
    expect((await rig.handler.received('deleted', 'gone')).arrival.happened).toBeUndefined();
  });

  test('is live where the API server sends no bookmarks', async () => {
    await clock.advance(80_000);
    server.remove('a', 'gone');
    expect((await rig.handler.received('deleted', 'gone')).arrival.happened).toBeUndefined();
  });
});

describe('an API server that takes two seconds for a list', () => {
  const LIST_MS = 2_000;
  beforeEach(async () => {
    await rig.stop();
    const since = server.requests.length;
    server.next('list', { kind: 'hold' });
    rig = await startReflector(server, {
      clock,
      random: () => 0,
      waitUntilReady: false,
    });
    await server.seen(({ kind }) => kind === 'list', since);
    await clock.advance(LIST_MS);
    server.release();
  });

  test('is watched at once, and what ends later than its list took is dated by its arrival', async () => {
    const listedAt = clock.now();
    // The clock stands still, so no time passes.
    server.put(pod('new'));
    await rig.handler.received('upserted', 'new');
    await clock.advance(LIST_MS - 1);
    server.remove('a', 'gone');
    const gone = await rig.handler.received('deleted', 'gone');
    expect(gone.arrival.happened).toEqual({ from: listedAt - LIST_MS, until: clock.now() });
    await clock.advance(1);
    server.remove('a', 'later');
    expect((await rig.handler.received('deleted', 'later')).arrival.happened).toBeUndefined();
  });
});
