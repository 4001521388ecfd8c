import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { systemClock } from '../telemetry/system-clock.ts';
import { Connection } from './connection.ts';
import { loadKubeConfig } from './kube-config.ts';
import { createOperatorHost } from './operator-base.ts';
import { createCapturingLogger } from './testing/capturing-logger.ts';
import { startScriptedApiServer } from './testing/scripted-api-server.ts';

let home = '';
let program = '';
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'exec-plugin-'));
  program = join(home, 'program.sh');
  await writeFile(program, `#!/bin/sh\ntouch ${join(home, 'mark')}\necho '{}'\n`);
  await chmod(program, 0o755);
  await mkdir(join(home, '.kube'));
  await writeFile(join(home, '.kube/config'), execKubeconfig('https://127.0.0.1:1'));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(home, { recursive: true });
});

function execKubeconfig(server: string): string {
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: program };
  return JSON.stringify({
    clusters: [{ name: 'x', cluster: { server } }],
    contexts: [{ name: 'x', context: { cluster: 'x', user: 'x' } }],
    users: [{ name: 'x', user: { exec } }],
    'current-context': 'x',
  });
}

test('the base class finds a kubeconfig in the home directory, and runs the program that it names', async () => {
  vi.stubEnv('HOME', home);
  vi.stubEnv('KUBECONFIG', '');
  const server = await startScriptedApiServer();
  const connection = new Connection(server.kubeConfig);
  const operator = createOperatorHost({
    connection,
    clock: systemClock,
    random: Math.random,
    logger: createCapturingLogger(),
  });
  await connection.request('/api/v1/pods');
  await operator.start();
  await operator.close();
  await connection.close();
  await server.close();
  expect(await readdir(home)).not.toContain('mark');
});

test('within a cluster the service account is used, whatever lies in the home directory', async () => {
  vi.stubEnv('HOME', home);
  const loaded = loadKubeConfig({
    kind: 'in-cluster',
    host: '10.0.0.1',
    port: '443',
    serviceAccountDirectory: home,
  });
  if (loaded.kind === 'invalid') throw new Error(loaded.reason);
  expect(loaded.kubeConfig.getCurrentCluster()?.server).toBe('https://10.0.0.1:443');
  expect(loaded.kubeConfig.getCurrentUser()?.exec).toBeUndefined();
});
