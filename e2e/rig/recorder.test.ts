import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { Recorder } from './recorder.ts';

const usage = (id: string, quantity: string): string =>
  `{"specversion":"1.0","id":"${id}","source":"local","type":"io.meterfeed.usage.v1.tenant_lb_hours","data":{"id":"${id}","quantity":${quantity}}}`;
const POST = `
  const [url, body] = process.argv.slice(1);
  const headers = { 'content-type': 'application/cloudevents-batch+json' };
  await fetch(url, { method: 'POST', headers, body });
`;

test('a request is taken for that of another process, or an event that came twice for one', async () => {
  const recorder = await Recorder.start();
  const pids: number[] = [];
  recorder.begin(() => pids);
  const send = async (...events: readonly string[]): Promise<number> => {
    const args = ['--input-type=module', '-e', POST, recorder.url, `[${events.join(',')}]`];
    const child = spawn(process.execPath, args, { stdio: 'inherit' });
    pids.push(child.pid ?? 0);
    expect(await once(child, 'exit')).toStrictEqual([0, null]);
    return child.pid ?? 0;
  };
  try {
    const first = await send(usage('a', '0.10'), usage('b', '1'));
    const second = await send(usage('a', '0.1'), usage('b', '1'));
    const { requests, usage: received } = recorder.recorded();
    expect(requests.map(({ pid }) => pid)).toStrictEqual([first, second]);
    expect([...received].map(([id, contents]) => [id, contents.size])).toStrictEqual([
      ['a', 2],
      ['b', 1],
    ]);
  } finally {
    await recorder.close();
  }
});
