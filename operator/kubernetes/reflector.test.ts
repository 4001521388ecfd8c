import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createManualClock } from './testing/manual-clock.ts';
import type { RawObject } from './source.ts';
import {
  projectTestPod,
  type ReflectorRig,
  type ReflectorRigOptions,
  startReflector,
} from './testing/reflector-rig.ts';
import { type ScriptedApiServer, startScriptedApiServer } from './testing/scripted-api-server.ts';

let server: ScriptedApiServer;
let rigs: ReflectorRig[];

beforeEach(async () => {
  server = await startScriptedApiServer();
  rigs = [];
});

afterEach(async () => {
  await Promise.all(rigs.map((rig) => rig.stop()));
  await server.until(() => server.openSockets === 0);
  await server.close();
});

async function start(options: ReflectorRigOptions & { waitUntilReady?: boolean } = {}) {
  const rig = await startReflector(server, options);
  rigs.push(rig);
  return rig;
}

const pod = (name: string, phase = 'Running', namespace = 'a') => ({
  namespace,
  name,
  status: { phase },
});

const watching = () => server.until(() => server.openWatches === 1);

/** Delays the next watch, so that the next changes fall into a gap. */
async function duringGap(change: () => void): Promise<void> {
  const before = server.requests.length;
  server.next('watch', { kind: 'hold' });
  server.cutWatches();
  await server.seen((request) => request.kind === 'watch', before);
  change();
  server.release();
}

describe('listing', () => {
  test('a list longer than a page is not cut short', async () => {
    for (let i = 0; i < 1_201; i += 1) server.put(pod(`p${i}`));
    const rig = await start();
    expect(rig.source.size).toBe(1_201);
    const lists = server.requests.filter(({ kind }) => kind === 'list');
    expect(lists.map(({ query }) => query.get('limit'))).toEqual(['500', '500', '500']);
    expect(lists.map(({ query }) => query.get('resourceVersion'))).toEqual([null, null, null]);
  });

  test('pages that expire half-way are read again from the start, and nothing counts as deleted', async () => {
    for (let i = 0; i < 1_001; i += 1) server.put(pod(`p${i}`));
    server.next('list', { kind: 'hold' });
    const rig = await start({ waitUntilReady: false });
    await server.seen(({ kind }) => kind === 'list');
    const before = server.requests.length;
    server.next('list', { kind: 'answer', code: 410 });
    server.release();
    await server.seen(({ kind, query }) => kind === 'list' && !query.has('continue'), before);
    await rig.source.ready(new AbortController().signal);
    expect(rig.source.size).toBe(1_001);
    expect(rig.handler.log.some((line) => line.startsWith('deleted'))).toBe(false);
  });

  test('ready waits for a slow list', async () => {
    server.put(pod('x'));
    server.next('list', { kind: 'hold' });
    const rig = await start({ waitUntilReady: false });
    await server.seen(({ kind }) => kind === 'list');
    expect(rig.source.health().state).toBe('starting');
    expect(rig.source.resourceVersion()).toBeUndefined();
    server.release();
    await rig.source.ready(new AbortController().signal);
    expect(rig.view).toEqual(['a/x Running']);
  });

  test('waiting for ready can be given up', async () => {
    server.next('list', { kind: 'hold' });
    const rig = await start({ waitUntilReady: false });
    const stop = new AbortController();
    const waiting = rig.source.ready(stop.signal);
    stop.abort();
    await expect(waiting).rejects.toThrow('aborted');
  });

  test('a first list says that nobody knows how long things have been so', async () => {
    server.put(pod('x'));
    const rig = await start();
    expect(rig.handler.changes[0]?.arrival).toMatchObject({ late: true, knownUntil: 0 });
  });
});

describe('watching', () => {
  test('changes arrive in order, with the version before', async () => {
    const rig = await start();
    await watching();
    server.put(pod('x', 'Pending'));
    server.put(pod('x', 'Running'));
    server.remove('a', 'x');
    const last = await rig.handler.received('deleted', 'x');
    expect(rig.handler.log).toEqual(['upserted a/x', 'upserted a/x', 'deleted a/x']);
    expect(rig.handler.changes[1]?.previous).toMatchObject({ phase: 'Pending' });
    expect(last.object.phase).toBe('Running');
    expect(last.arrival.late).toBe(false);
    expect(rig.source.size).toBe(0);
    expect(rig.source.resourceVersion()).toBe('103');
  });

  test('an event that arrives twice is reported once', async () => {
    const rig = await start();
    await watching();
    const object = server.put(pod('x'));
    server.write(`${JSON.stringify({ type: 'ADDED', object })}\n`);
    server.remove('a', 'x');
    server.write(`${JSON.stringify({ type: 'DELETED', object })}\n`);
    server.put(pod('end'));
    await rig.handler.received('upserted', 'end');
    expect(rig.handler.log).toEqual(['upserted a/x', 'deleted a/x', 'upserted a/end']);
  });

  test('a late DELETED of a predecessor does not take its successor away', async () => {
    const rig = await start();
    await watching();
    const object = server.put({ ...pod('x'), uid: 'old' });
    server.remove('a', 'x');
    server.put({ ...pod('x'), uid: 'new' });
    server.write(`${JSON.stringify({ type: 'DELETED', object })}\n`);
    server.put(pod('end'));
    await rig.handler.received('upserted', 'end');
    expect(rig.source.find('a', 'x')?.uid).toBe('new');
  });

  test('a version without a difference in its projection is not reported', async () => {
    const rig = await start();
    await watching();
    server.put({ ...pod('x'), extra: 1 });
    server.put({ ...pod('x'), extra: 2 });
    server.put(pod('end'));
    await rig.handler.received('upserted', 'end');
    expect(rig.handler.log).toEqual(['upserted a/x', 'upserted a/end']);
  });

  test('an object that stops being of interest is reported as deleted', async () => {
    const rig = await start({
      project: (object) => {
        const status = object['status'] as { phase: string };
        const { uid, name, namespace } = object['metadata'] as Record<string, string>;
        if (status.phase === 'Succeeded' || !uid || !name || !namespace) return undefined;
        return { uid, name, namespace, phase: status.phase };
      },
    });
    await watching();
    server.put(pod('x'));
    server.put(pod('x', 'Succeeded'));
    expect((await rig.handler.received('deleted', 'x')).object.phase).toBe('Running');
  });

  test('a bookmark moves on where the watch resumes', async () => {
    const rig = await start();
    await watching();
    server.silently(() => server.put(pod('elsewhere')));
    server.bookmark();
    const before = server.requests.length;
    server.put(pod('x'));
    await rig.handler.received('upserted', 'x');
    server.endWatches();
    const next = await server.seen(({ kind }) => kind === 'watch', before);
    expect(next.query.get('resourceVersion')).toBe('102');
    expect(next.query.get('allowWatchBookmarks')).toBe('true');
    const seconds = Number(next.query.get('timeoutSeconds'));
    expect(seconds).toBeGreaterThanOrEqual(300);
    expect(seconds).toBeLessThanOrEqual(600);
  });
});

describe('a server out of reach', () => {
  test('a deletion while disconnected is reported when the watch resumes', async () => {
    server.put(pod('x'));
    const rig = await start();
    await watching();
    await duringGap(() => server.remove('a', 'x'));
    const { arrival } = await rig.handler.received('deleted', 'x');
    expect(arrival.late).toBe(false);
    expect(arrival.knownUntil).toBeLessThanOrEqual(arrival.at);
    expect(arrival.happened?.from).toBeLessThan(arrival.at);
    expect(server.requests.filter(({ kind }) => kind === 'list')).toHaveLength(1);
  });

  test('a deletion during a long disconnection is reported from the new list, as late', async () => {
    server.put(pod('x', 'Pending'));
    server.put(pod('stays'));
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0 });
    await watching();
    await clock.advance(20_000);
    server.put(pod('x', 'Running'));
    await rig.handler.until(() => rig.handler.log.length === 3);
    const contactAt = clock.now();
    await clock.advance(30_000);
    await duringGap(() => {
      server.remove('a', 'x');
      server.compact();
    });
    const deletion = await rig.handler.received('deleted', 'x');
    expect(deletion.object.phase).toBe('Running');
    expect(deletion.arrival).toMatchObject({ late: true, at: clock.now() });
    expect(deletion.arrival.knownUntil).toBeLessThanOrEqual(contactAt);
    expect(rig.view).toEqual(['a/stays Running']);
    expect(rig.handler.log.filter((line) => line.endsWith('stays'))).toHaveLength(1);
  });

  test('what came and went while disconnected for too long is unknown from the last news to the list', async () => {
    server.put(pod('x'));
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0 });
    const listedAt = clock.now();
    await watching();
    await clock.advance(600_000);
    await duringGap(() => {
      server.put(pod('brief'));
      server.remove('a', 'brief');
      server.remove('a', 'x');
      server.compact();
    });
    await rig.handler.received('deleted', 'x');
    expect(rig.handler.log.some((line) => line.endsWith('brief'))).toBe(false);
    expect(rig.source.health().unseen).toEqual([
      { from: 0, until: listedAt },
      { from: listedAt, until: listedAt + 600_000 },
    ]);
  });

  test('a watch that was quiet until the server ended it in order has missed nothing until then', async () => {
    server.put(pod('x'));
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0, timings: { inactivity: 3_600_000 } });
    // The watch is open.
    await clock.sleeper((ms) => ms === 3_600_000);
    await clock.advance(600_000);
    const before = server.requests.length;
    server.next('watch', { kind: 'hold' });
    server.endWatches();
    await server.seen(({ kind }) => kind === 'watch', before);
    const endedAt = clock.now();
    await clock.advance(60_000);
    server.remove('a', 'x');
    server.compact();
    server.release();
    await rig.handler.received('deleted', 'x');
    expect(rig.source.health().unseen?.at(-1)).toEqual({ from: endedAt, until: clock.now() });
  });

  test('a 410 as HTTP answer leads to a fresh list like one in the stream', async () => {
    server.put(pod('x'));
    const rig = await start();
    await watching();
    server.next('watch', { kind: 'answer', code: 410 });
    server.silently(() => server.remove('a', 'x'));
    server.cutWatches();
    expect((await rig.handler.received('deleted', 'x')).arrival.late).toBe(true);
    expect(await rig.metric('cache_relists_total')).toBe(1);
  });

  test('deleted and created again under one name is a deletion and a creation', async () => {
    server.put({ ...pod('x'), uid: 'old' });
    const rig = await start();
    await watching();
    await duringGap(() => {
      server.remove('a', 'x');
      server.put({ ...pod('x'), uid: 'new' });
      server.compact();
    });
    await rig.handler.until(() => rig.handler.log.length === 3);
    expect(rig.handler.changes.map(({ kind, object }) => `${kind} ${object.uid}`)).toEqual([
      'upserted old',
      'deleted old',
      'upserted new',
    ]);
    expect(rig.handler.changes[2]?.previous).toBeUndefined();
  });

  test('a line that is no event is counted and what it may have hidden is found by a list', async () => {
    server.put(pod('x'));
    const rig = await start();
    await watching();
    server.silently(() => server.remove('a', 'x'));
    server.write('{"type":"DELETED","object":{"meta\n');
    expect((await rig.handler.received('deleted', 'x')).arrival.late).toBe(true);
    expect(await rig.metric('watch_garbage_total')).toBe(1);
  });

  test('half an event before a cut is not lost', async () => {
    const rig = await start();
    await watching();
    const object = server.put(pod('warm'));
    await rig.handler.received('upserted', 'warm');
    server.write(JSON.stringify({ type: 'DELETED', object }).slice(0, 40));
    await duringGap(() => server.remove('a', 'warm'));
    await rig.handler.received('deleted', 'warm');
    expect(await rig.metric('watch_garbage_total')).toBe(0);
  });

  test('a connection that has gone silent is replaced after 90 seconds, without a failure', async () => {
    server.put(pod('x'));
    server.next('watch', { kind: 'quiet' });
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0 });
    await watching();
    server.remove('a', 'x');
    await clock.sleeper((ms) => ms === 90_000);
    await clock.advance(90_000);
    expect((await rig.handler.received('deleted', 'x')).arrival.late).toBe(false);
    expect(rig.source.health().state).toBe('synced');
  });

  test('the first event of a burst does not vouch for the second', async () => {
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0 });
    await clock.sleeper((ms) => ms === 90_000);
    await clock.advance(40_000);
    server.put(pod('one'));
    await rig.handler.received('upserted', 'one');
    await clock.advance(20_000);
    server.put(pod('two'));
    server.put(pod('three'));
    const two = await rig.handler.received('upserted', 'two');
    const three = await rig.handler.received('upserted', 'three');
    expect(two.arrival.at - two.arrival.knownUntil).toBe(20_000);
    expect(three.arrival.knownUntil).toBe(two.arrival.knownUntil);
  });

  test('events of a gap that arrive slowly do not vouch for each other either', async () => {
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0 });
    const opened = () => clock.sleeper((ms) => ms === 90_000);
    await opened();
    await clock.advance(50_000);
    server.put(pod('before'));
    const before = await rig.handler.received('upserted', 'before');
    server.next('watch', { kind: 'hold' });
    const since = server.requests.length;
    server.cutWatches();
    await server.seen(({ kind }) => kind === 'watch', since);
    await clock.advance(60_000);
    server.release();
    await opened();
    for (const name of ['one', 'two', 'three']) {
      await clock.advance(8_000);
      server.put(pod(name));
      const { arrival } = await rig.handler.received('upserted', name);
      expect(arrival.knownUntil).toBeLessThanOrEqual(before.arrival.at);
    }
    await clock.advance(30_000);
    server.put(pod('later'));
    await rig.handler.received('upserted', 'later');
    await clock.advance(10_000);
    server.put(pod('much later'));
    const { arrival } = await rig.handler.received('upserted', 'much later');
    expect(arrival.at - arrival.knownUntil).toBe(10_000);
  });

  test('a server in trouble is queried at the pace that it names', async () => {
    const clock = createManualClock();
    const headers = { 'Retry-After': '17' };
    server.next('list', { kind: 'answer', code: 429, headers });
    const rig = await start({ clock, waitUntilReady: false });
    expect(await clock.sleeper((ms) => ms !== 600_000 && ms < 400_000)).toBe(17_000);
    expect(rig.source.health()).toMatchObject({ state: 'failing' });
    expect(rig.source.health().reason).toContain('HTTP 429');
    await clock.advance(17_000);
    await rig.source.ready(new AbortController().signal);
  });

  test('delays grow to half a minute and no further', async () => {
    const clock = createManualClock();
    server.always('list', { kind: 'answer', code: 503 });
    await start({
      clock,
      random: () => 0.999_999,
      waitUntilReady: false,
      timings: { backoffBase: 200, backoffCap: 30_000 },
    });
    const delays: number[] = [];
    for (let round = 0; round < 10; round += 1) {
      const delay = await clock.sleeper((ms) => ms < 60_000);
      delays.push(Math.round(delay));
      await clock.advance(delay);
    }
    expect(delays).toEqual([200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
  });

  test('an event starts the delays over', async () => {
    const clock = createManualClock();
    const timings = { backoffBase: 200, backoffCap: 30_000 };
    const rig = await start({ clock, random: () => 0.999_999, timings });
    await watching();
    server.always('watch', { kind: 'answer', code: 503 });
    server.cutWatches();
    for (let round = 0; round < 6; round += 1) {
      await clock.advance(await clock.sleeper((ms) => ms < 60_000));
    }
    server.always('watch', undefined);
    await clock.advance(await clock.sleeper((ms) => ms < 60_000));
    await watching();
    server.put(pod('x'));
    await rig.handler.received('upserted', 'x');
    server.cutWatches();
    // Only the wait for missed changes is shorter.
    expect(Math.round(await clock.sleeper((ms) => ms > 5 && ms < 60_000))).toBe(200);
  });

  test('it never gives up, whatever the server does', async () => {
    const rig = await start();
    await watching();
    for (let round = 0; round < 15; round += 1) {
      server.next('watch', { kind: 'cut' });
      server.next('watch', { kind: 'answer', code: 500, body: '<html>' });
      server.next('watch', { kind: 'answer', code: 401 });
      server.next('watch', { kind: 'answer', code: 410 });
      server.next('list', { kind: 'cut' });
      server.next('list', { kind: 'answer', code: 503 });
      server.next('list', { kind: 'answer', code: 200, body: 'not a list' });
      server.next('list', { kind: 'answer', code: 403 });
    }
    server.cutWatches();
    server.put(pod('x'));
    await rig.handler.received('upserted', 'x');
    expect(rig.source.health().state).toBe('synced');
    const warnings = rig.logger.lines.filter((line) => line.startsWith('warn'));
    expect(warnings.some((line) => line.includes('HTTP 403'))).toBe(true);
  });
});

describe('an absent resource', () => {
  const notFound = { kind: 'answer', code: 404, body: '404 page not found' } as const;

  test('is no failure, and is found when it appears', async () => {
    server.always('list', notFound);
    const rig = await start();
    expect(rig.source.health().state).toBe('absent');
    server.put(pod('x'));
    server.always('list', undefined);
    await rig.handler.received('upserted', 'x');
    expect(rig.source.health().state).toBe('synced');
  });

  test('has had no objects that came and went, however long it is absent', async () => {
    server.always('list', notFound);
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0, timings: { absentProbe: 30_000 } });
    await clock.sleeper((ms) => ms === 30_000);
    const before = server.requests.length;
    await clock.advance(30_000);
    await server.seen(() => true, before);
    const absentAt = clock.now();
    await clock.sleeper((ms) => ms === 30_000);
    server.put(pod('x'));
    server.always('list', undefined);
    await clock.advance(30_000);
    await rig.handler.received('upserted', 'x');
    expect(rig.source.health().unseen).toEqual([{ from: absentAt, until: clock.now() }]);
  });

  test('takes its objects away only when it is absent twice: a starting API server answers 404 too', async () => {
    server.put(pod('x'));
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0, timings: { absentProbe: 30_000 } });
    await watching();
    server.always('list', notFound);
    server.always('watch', notFound);
    server.cutWatches();
    await clock.sleeper((ms) => ms === 30_000);
    expect(rig.view).toEqual(['a/x Running']);
    expect(rig.source.health().state).toBe('failing');
    await clock.advance(30_000);
    expect((await rig.handler.received('deleted', 'x')).arrival.late).toBe(true);
    expect(rig.source.health().state).toBe('absent');
  });
});

describe('mistakes of ours', () => {
  test('a handler that throws costs neither the watch nor the other handlers', async () => {
    const broken = {
      upserted: () => {
        throw new Error('broken upsert');
      },
      deleted: () => {
        throw new Error('broken delete');
      },
    };
    server.put(pod('x'));
    const rig = await start({ handlers: [broken] });
    await watching();
    server.remove('a', 'x');
    await rig.handler.received('deleted', 'x');
    expect(await rig.metric('watch_handler_failures_total')).toBe(2);
    expect(rig.logger.lines).toContain('error [controller] handler of pods threw');
  });

  test('a projection that throws keeps the version before, and deletes nothing', async () => {
    let broken = false;
    server.put(pod('x'));
    const rig = await start({
      project: (object) => {
        if (broken) throw new Error('broken projection');
        const {
          uid = '',
          name = '',
          namespace = '',
        } = object['metadata'] as Record<string, string>;
        return { uid, name, namespace, phase: '' };
      },
    });
    await watching();
    broken = true;
    const before = server.requests.length;
    server.write('garbage\n');
    await server.seen(({ kind }) => kind === 'watch', before);
    expect(rig.handler.log).toEqual(['upserted a/x']);
    expect(rig.source.size).toBe(1);
  });
});

describe('comparing with an exact list', () => {
  const INTERVAL = 600_000;

  test('finds events that were lost without a trace, and counts them', async () => {
    server.put(pod('vanishes'));
    server.put(pod('changes', 'Pending'));
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0.5 });
    await watching();
    server.silently(() => {
      server.remove('a', 'vanishes');
      server.put(pod('changes', 'Running'));
      server.put(pod('appears'));
    });
    server.put(pod('end'));
    await rig.handler.received('upserted', 'end');
    const before = server.requests.length;
    for (let waited = 0; waited < INTERVAL; waited += 60_000) {
      server.bookmark();
      await clock.advance(60_000);
    }
    const list = await server.seen(({ kind }) => kind === 'list', before);
    expect(list.query.get('resourceVersionMatch')).toBe('Exact');
    expect((await rig.handler.received('deleted', 'vanishes')).arrival.late).toBe(true);
    expect(rig.view).toEqual(['a/appears Running', 'a/changes Running', 'a/end Running']);
    expect(await rig.metric('cache_corrections_total')).toBe(3);
  });

  test('does not take changes under way for lost events', async () => {
    server.put(pod('goes'));
    server.put(pod('changes', 'Pending'));
    server.put({ ...pod('again'), uid: 'old' });
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0.5 });
    await watching();
    server.next('list', { kind: 'hold' });
    const before = server.requests.length;
    await clock.sleeper((ms) => ms === INTERVAL);
    await clock.advance(INTERVAL);
    await server.seen(({ kind }) => kind === 'list', before);
    server.remove('a', 'goes');
    server.put(pod('changes', 'Running'));
    server.remove('a', 'again');
    server.put({ ...pod('again'), uid: 'new' });
    server.put(pod('comes'));
    await rig.handler.received('upserted', 'comes');
    const reported = rig.handler.log.length;
    server.release();
    await clock.sleeper((ms) => ms === INTERVAL);
    expect(rig.handler.log).toHaveLength(reported);
    expect(await rig.metric('cache_corrections_total')).toBe(0);
    expect(rig.view).toEqual(['a/again Running', 'a/changes Running', 'a/comes Running']);
  });

  test('over several pages finds nothing where nothing was lost', async () => {
    for (let i = 0; i < 1_001; i += 1) server.put(pod(`p${i}`));
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0.5 });
    await clock.sleeper((ms) => ms === INTERVAL);
    const before = server.requests.length;
    await clock.advance(INTERVAL);
    await server.until(
      () => server.requests.slice(before).filter(({ kind }) => kind === 'list').length === 3,
    );
    await clock.sleeper((ms) => ms === INTERVAL);
    expect(rig.source.size).toBe(1_001);
    expect(await rig.metric('cache_corrections_total')).toBe(0);
    expect(await rig.metric('cache_relists_total')).toBe(0);
  });

  test('that is overtaken by a fresh list does not bring back what is gone', async () => {
    server.put(pod('x'));
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0.5 });
    await watching();
    server.next('list', { kind: 'hold' });
    const before = server.requests.length;
    await clock.sleeper((ms) => ms === INTERVAL);
    await clock.advance(INTERVAL);
    await server.seen(({ kind }) => kind === 'list', before);
    server.next('watch', { kind: 'answer', code: 410 });
    server.cutWatches();
    server.remove('a', 'x');
    const advancing = rig.handler.received('deleted', 'x');
    for (let i = 0; i < 2; i += 1) {
      await clock.advance(await clock.sleeper((ms) => ms < 100));
    }
    await advancing;
    server.release();
    await clock.sleeper((ms) => ms === INTERVAL);
    expect(rig.view).toEqual([]);
    expect(rig.handler.log).toEqual(['upserted a/x', 'deleted a/x']);
  });

  test('falls back to an ordinary list when the version is forgotten', async () => {
    server.put(pod('x'));
    const clock = createManualClock();
    const rig = await start({ clock, random: () => 0.5 });
    await watching();
    server.silently(() => server.remove('a', 'x'));
    server.next('list', { kind: 'answer', code: 410 });
    for (let waited = 0; waited < INTERVAL; waited += 60_000) {
      server.bookmark();
      await clock.advance(60_000);
    }
    await clock.sleeper((ms) => ms > 0 && ms < 100);
    await clock.advance(100);
    expect((await rig.handler.received('deleted', 'x')).arrival.late).toBe(true);
  });
});

describe('resuming after a restart', () => {
  const remembered = { uid: 'uid-1', namespace: 'a', name: 'x', phase: 'Running' };

  test('watches on from the stored version and reports what happened meanwhile, without a list', async () => {
    server.put(pod('x'));
    const at = '101';
    server.remove('a', 'x');
    server.put(pod('y'));
    const resume = { resourceVersion: at, objects: [remembered], knownAt: 1_000 };
    const rig = await start({ resume });
    expect(rig.handler.log).toEqual(['deleted a/x', 'upserted a/y']);
    for (const { arrival } of rig.handler.changes) {
      expect(arrival.knownUntil).toBe(1_000);
      expect(arrival.happened).toEqual({ from: 1_000, until: arrival.at });
    }
    expect(server.requests.some(({ kind }) => kind === 'list')).toBe(false);
    expect(rig.source.resourceVersion()).toBe('103');
  });

  test('an object that the journal stored without its undefined fields is not reported as changed', async () => {
    server.put(pod('x'));
    server.compact();
    const project = (object: RawObject) => {
      const projected = projectTestPod(object);
      return projected && { ...projected, node: undefined };
    };
    const resume = { resourceVersion: '1', objects: [remembered], knownAt: 1_000 };
    const rig = await start({ resume, project });
    expect(rig.view).toEqual(['a/x Running']);
    expect(rig.handler.log).toEqual([]);
  });

  test('finds what was deleted during a stop that the server does not remember', async () => {
    server.put(pod('x'));
    server.remove('a', 'x');
    server.put(pod('y'));
    server.compact();
    const resume = { resourceVersion: '101', objects: [remembered], knownAt: 1_000 };
    const rig = await start({ resume });
    expect(rig.handler.log.toSorted()).toEqual(['deleted a/x', 'upserted a/y']);
    expect(rig.handler.changes.map(({ arrival }) => arrival)).toMatchObject([
      { late: true, knownUntil: 1_000 },
      { late: true, knownUntil: 1_000 },
    ]);
    const { at: foundAt = 0 } = rig.handler.changes[0]?.arrival ?? {};
    const [stretch] = rig.source.health().unseen ?? [];
    expect(stretch?.from).toBe(1_000);
    expect(stretch?.until).toBeLessThanOrEqual(foundAt);
    expect(stretch?.until).toBeGreaterThan(foundAt - 60_000);
  });
});

describe('stopping', () => {
  test.each([
    ['while listing', () => server.next('list', { kind: 'hold' })],
    ['while a watch opens', () => server.next('watch', { kind: 'hold' })],
    ['while backing off', () => server.always('list', { kind: 'answer', code: 503 })],
    ['while watching', () => undefined],
    ['while watching in silence', () => server.next('watch', { kind: 'quiet' })],
  ])('%s leaves no socket, no sleeper and no handler call behind', async (_, prepare) => {
    prepare();
    const clock = createManualClock();
    const rig = await start({ clock, waitUntilReady: false });
    await server.seen(() => true);
    if (_ === 'while watching') await watching();
    await rig.stop();
    await server.until(() => server.openSockets === 0);
    expect(clock.sleepers).toBe(0);
    const reported = rig.handler.log.length;
    server.put(pod('after'));
    expect(rig.handler.log).toHaveLength(reported);
  });

  test('in the middle of a batch of events reports no more of them', async () => {
    const stopping: { rig?: ReflectorRig; stopped?: Promise<void> } = {};
    const handlers = [
      {
        upserted: () => {
          stopping.stopped ??= stopping.rig?.stop() ?? Promise.resolve();
        },
        deleted: () => undefined,
      },
    ];
    const rig = await start({ handlers });
    stopping.rig = rig;
    await watching();
    const events = ['x', 'y'].map((name) => {
      const metadata = { namespace: 'a', name, uid: name, resourceVersion: '200' };
      return `${JSON.stringify({ type: 'ADDED', object: { metadata } })}\n`;
    });
    server.write(events.join(''));
    await rig.handler.received('upserted', 'x');
    await stopping.stopped;
    expect(rig.handler.log).toEqual(['upserted a/x']);
  });

  test('reconnecting again and again does not pile up sockets', async () => {
    const rig = await start();
    for (let round = 0; round < 50; round += 1) {
      await watching();
      const before = server.requests.length;
      if (round % 2 === 0) server.cutWatches();
      else server.endWatches();
      await server.seen(({ kind }) => kind === 'watch', before);
    }
    expect(server.openSockets).toBeLessThanOrEqual(3);
    expect(rig.source.health().state).toBe('synced');
  });
});

describe('several namespaces', () => {
  test('are one view, each with its own watch, and resume from their own versions', async () => {
    server.put(pod('x', 'Running', 'a'));
    server.put(pod('y', 'Running', 'b'));
    server.put(pod('hidden', 'Running', 'c'));
    const rig = await start({ namespaces: ['a', 'b', 'a'] });
    await server.until(() => server.openWatches === 2);
    expect(rig.view).toEqual(['a/x Running', 'b/y Running']);
    expect(rig.source.find('b', 'y')?.name).toBe('y');
    expect(rig.source.find('c', 'hidden')).toBeUndefined();
    expect(rig.source.health().state).toBe('synced');
    const resourceVersion = rig.source.resourceVersion();
    const objects = [...rig.source.values()];
    await rig.stop();
    server.remove('b', 'y');
    const before = server.requests.length;
    const again = await start({ namespaces: ['a', 'b'], resume: { resourceVersion, objects } });
    expect(again.handler.log).toEqual(['deleted b/y']);
    expect(server.requests.slice(before).some(({ kind }) => kind === 'list')).toBe(false);
  });

  test('a version of another set of namespaces is not trusted: lists find the difference', async () => {
    server.put(pod('x', 'Running', 'a'));
    const objects = [{ uid: 'gone', namespace: 'a', name: 'gone', phase: 'Running' }];
    const rig = await start({ namespaces: ['a'], resume: { resourceVersion: '100', objects } });
    expect(rig.handler.log.toSorted()).toEqual(['deleted a/gone', 'upserted a/x']);
  });

  test('versions of single namespaces are not trusted where all are watched', async () => {
    server.put(pod('x', 'Running', 'a'));
    const objects = [{ uid: 'gone', namespace: 'b', name: 'gone', phase: 'Running' }];
    const resourceVersion = JSON.stringify({ b: '100' });
    const rig = await start({ resume: { resourceVersion, objects } });
    expect(rig.handler.log.toSorted()).toEqual(['deleted b/gone', 'upserted a/x']);
  });
});
