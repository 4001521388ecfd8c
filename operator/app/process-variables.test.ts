import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { freePort } from '../../e2e/control-plane/ports.ts';

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url));

let directory = '';
const running: ChildProcess[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-process-'));
});
afterEach(async () => {
  for (const child of running.splice(0)) child.kill('SIGKILL');
  await rm(directory, { recursive: true });
});

/** A cluster that nobody runs: the operator waits for it, and serves its health meanwhile. */
const KUBECONFIG = `
apiVersion: v1
kind: Config
current-context: absent
contexts: [{ name: absent, context: { cluster: absent, user: absent } }]
clusters: [{ name: absent, cluster: { server: 'http://127.0.0.1:1' } }]
users: [{ name: absent, user: {} }]
`;

/** What the process writes between its start and a SIGTERM, which comes when it answers. */
async function run(environment: Readonly<Record<string, string>>) {
  const kubeconfig = join(directory, 'kubeconfig');
  await writeFile(kubeconfig, KUBECONFIG);
  const port = await freePort();
  const dataDir = join(directory, `data-${port}`);
  const child = spawn(process.execPath, [MAIN], {
    env: {
      KUBECONFIG: kubeconfig,
      DATA_DIR: dataDir,
      LISTEN_ADDR: `127.0.0.1:${port}`,
      ...environment,
    },
  });
  running.push(child);
  const output = text(child.stdout);
  const errors = text(child.stderr);
  const answers = () =>
    fetch(`http://127.0.0.1:${port}/healthz`).then(
      ({ status }) => status,
      () => 0,
    );
  let health = 0;
  while (health === 0) {
    if (child.exitCode !== null) throw new Error(await errors);
    health = await answers();
    if (health === 0) await delay(50);
  }
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await exit;
  const lines = (await output).split('\n').filter((line) => line !== '');
  return { health, lines, files: await readdir(dataDir) };
}

test('LISTEN_ADDR and DATA_DIR: it listens there, and the ledger is there', async () => {
  const { health, files } = await run({});
  expect(health).toBeGreaterThanOrEqual(200);
  expect(files.length).toBeGreaterThan(0);
});

test('LOG_FORMAT: JSON, or text for people', async () => {
  const json = await run({});
  expect(json.lines.length).toBeGreaterThan(1);
  expect(json.lines.map((line) => (JSON.parse(line) as { level: string }).level)).toContain('info');
  const plain = await run({ LOG_FORMAT: 'text' });
  expect(plain.lines[0]).toMatch(/^\S+Z INFO {2}\[controller\] meterfeed \S+ starts/);
});

test('LOG_LEVEL: what is less severe is not written', async () => {
  const { lines } = await run({ LOG_LEVEL: 'warn', LOG_FORMAT: 'text' });
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.filter((line) => !/^\S+ (WARN|ERROR) /.test(line))).toStrictEqual([]);
});
