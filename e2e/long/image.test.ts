import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { freePort } from '../control-plane/ports.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { layOutBuild, layOutRuntime } from '../image/base-images.ts';
import { Buildah, type ImageConfig } from '../image/buildah.ts';
import { applyCustomResources, OPERATOR_NAMESPACE } from '../local/custom-resources.ts';
import { shippedProcess } from '../local/stateful-set.ts';
import { type ManagedProcess, startProcess } from '../processes/managed-process.ts';
import { type Receiver, startReceiver } from '../receiver/receiver.ts';
import { type Simulator, startSimulator } from '../simulator/simulator.ts';
import { readTruth } from '../simulator/truth.ts';
import { measuredFrom, wronglyBilled } from './billed-seconds.ts';
import { missingWindows, readReceived, repeatedIds } from './received.ts';

const ROOT = join(import.meta.dirname, '../..');
const IMAGE = 'localhost/meterfeed:test';
const NONROOT = 65_532;
const WINDOW_MS = 10_000;
const WINDOWS = 6;

/**
 * The Dockerfile carried out, on base images made of this machine's Node and what it links. Needs root and buildah
 * (Debian's package). That the published base images hold what these do is not shown here.
 */
describe('the image', () => {
  const cluster = useOwnTestCluster();
  let directory: string;
  let buildah: Buildah;
  let config: ImageConfig;
  let container: { readonly name: string; readonly root: string };

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'image-'));
    buildah = new Buildah(directory);
    const bases = { build: layOutBuild, runtime: layOutRuntime };
    for (const [name, layOut] of Object.entries(bases)) {
      mkdirSync(join(directory, name));
      layOut(join(directory, name));
      await buildah.imageOf(join(directory, name), `localhost/${name}`);
    }
    const cache = join(homedir(), '.npm');
    mkdirSync(cache, { recursive: true });
    await buildah.build({
      context: ROOT,
      image: IMAGE,
      buildArguments: { BUILD_IMAGE: 'localhost/build', RUNTIME_IMAGE: 'localhost/runtime' },
      volumes: { '/root/.npm': cache },
    });
    config = await buildah.config(IMAGE);
    container = await buildah.container(IMAGE);
  }, 1_200_000);
  afterAll(async () => {
    if (process.env['KEEP_RUN'] === undefined)
      await rm(directory, { recursive: true, force: true });
  });

  test('runs as root, or has a shell, sources or tests in it', () => {
    expect(config.User).toBe(`${NONROOT}:${NONROOT}`);
    const app = join(container.root, 'app');
    const files = readdirSync(app, { recursive: true, encoding: 'utf8' });
    expect(files).toContain('sbom.cdx.json');
    expect(files.filter((file) => /\.test\.[cm]?[jt]s$|(?<!\.d)\.ts$/.test(file))).toEqual([]);
    const bytes = files.map((file) => statSync(join(app, file))).filter((stat) => stat.isFile());
    expect(bytes.reduce((sum, { size }) => sum + size, 0)).toBeLessThan(16 * 1024 * 1024);
    expect(existsSync(join(container.root, 'usr/bin/sh'))).toBe(false);
  });

  describe('on a cluster', () => {
    const secret = 'image-secret';
    let receiver: Receiver;
    let simulator: Simulator;
    let operator: ManagedProcess;
    const file = (name: string): string => join(directory, name);

    beforeAll(async () => {
      receiver = await startReceiver({ file: file('received.ndjson'), secret, port: 0 });
      await applyCustomResources(cluster.kubectl, { url: receiver.url, secret });
      simulator = await startSimulator({
        credentials: cluster.credentials,
        truthFile: file('truth.ndjson'),
        log: (line) => console.error(line),
      });
      mkdirSync(file('data'));
      chownSync(file('data'), NONROOT, NONROOT);
      const secrets = '/var/run/secrets';
      mkdirSync(join(container.root, secrets), { recursive: true });
      writeFileSync(join(container.root, secrets, 'kubeconfig'), cluster.kubeconfig);
      const address = `127.0.0.1:${await freePort()}`;
      const [command = '', ...args] = buildah.command(
        container.name,
        config,
        {
          ...shippedProcess().environment,
          CLUSTER_NAME: 'local',
          REGION: 'local',
          PLATFORM_CLUSTER: 'local',
          COLLECTION_INTERVAL: `${WINDOW_MS / 1_000}s`,
          LISTEN_ADDR: address,
          POD_NAMESPACE: OPERATOR_NAMESPACE,
          KUBECONFIG: join(secrets, 'kubeconfig'),
        },
        // A second one would be hidden by the image's own: buildah 1.28 mounts that later.
        { '/var/lib/vbilling-data': file('data') },
      );
      operator = await startProcess({
        name: 'image',
        command,
        args,
        env: process.env,
        logFile: file('operator.log'),
        pidFile: file('operator.pid'),
        ready: async () => (await fetch(`http://${address}/readyz`)).ok,
      });
    }, 180_000);
    afterAll(async () => {
      await operator?.stop(30_000);
      await simulator?.stop();
      await receiver?.stop();
    });

    test('does not run as the user and under the options that it is shipped with', () => {
      const [status] = processesOf(config.Entrypoint);
      expect(status).toMatch(new RegExp(`^Uid:(\\t${NONROOT}){4}$`, 'm'));
    });

    test('bills a pod wrongly, or a window twice or not at all', async () => {
      const until = Date.now() + WINDOWS * WINDOW_MS;
      const received = () => readReceived(file('received.ndjson'));
      const lastWindow = () =>
        Math.max(0, ...received().map(({ window_end }) => Date.parse(window_end)));
      await vi.waitFor(() => expect(lastWindow()).toBeGreaterThanOrEqual(until), {
        timeout: (WINDOWS + 6) * WINDOW_MS,
        interval: 500,
      });
      const events = received();
      expect(repeatedIds(events)).toEqual([]);
      expect(missingWindows(events, WINDOW_MS)).toEqual([]);
      const from = measuredFrom(events);
      const pods = readTruth(file('truth.ndjson')).filter(
        ({ namespace, startedAt, finishedAt }) =>
          namespace === 'tenant-burst' &&
          Date.parse(startedAt) >= from &&
          Date.parse(finishedAt) < until - WINDOW_MS,
      );
      expect(pods.length).toBeGreaterThan(5);
      expect(wronglyBilled(pods, events).exact).toEqual([]);
    }, 240_000);
  });
});

/** What the kernel says of the processes that were started with these words. */
function processesOf(words: readonly string[]): string[] {
  const line = `${words.join('\0')}\0`;
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        if (readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== line) return [];
        return [readFileSync(`/proc/${pid}/status`, 'utf8')];
      } catch {
        // A process that ended meanwhile.
        return [];
      }
    });
}
