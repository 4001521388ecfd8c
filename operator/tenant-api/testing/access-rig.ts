import { KubeConfig } from '@kubernetes/client-node';
import type { Environment } from '../../settings/load-environment.ts';
import { createSettingsStore } from '../../settings/settings-store.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { settingsFrom } from '../../discovery/testing/host.ts';
import type { RequestOutcome } from '../../kubernetes/connection.ts';
import { statusFailure } from '../../kubernetes/outcome.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { createManualClock } from '../../kubernetes/testing/manual-clock.ts';
import { mayHaveApi, TenantApiAccess } from '../access.ts';
import { fakeDiscovery } from './tenant-clusters.ts';
import { base64 } from './kubeconfigs.ts';

/**
 * Access over Secrets that a test sets, by `<namespace>/<name>`, and that must not be listed or
 * watched.
 */
export function createAccessRig(environment: Environment, ...clusters: readonly TenantCluster[]) {
  const secrets = new Map<string, RequestOutcome>();
  const requested: string[] = [];
  const clock = createManualClock();
  const logger = createCapturingLogger();
  const discovery = fakeDiscovery(...clusters);
  const kubeConfig = new KubeConfig();
  kubeConfig.loadFromClusterAndUser(
    { name: 'host', server: 'https://10.0.0.1', skipTLSVerify: false },
    { name: 'host' },
  );
  const settings = createSettingsStore(settingsFrom(environment));
  const access = new TenantApiAccess({
    discovery,
    clock,
    logger,
    random: () => 0.5,
    settings,
    watchNamespaces: [],
    connection: {
      kubeConfig,
      stream: async () => statusFailure(403, {}),
      request: async (path) => {
        if (path === '/api/v1/secrets' || path === '/api/v1/services')
          return statusFailure(403, {});
        const [, namespace, name] = /namespaces\/([^/]+)\/secrets\/([^/]+)$/.exec(path) ?? [];
        requested.push(`${namespace}/${name}`);
        const answer = secrets.get(`${namespace}/${name}`) ?? statusFailure(404, {});
        await new Promise(setImmediate);
        return answer;
      },
    },
  });
  const stop = new AbortController();
  // After the test has put its first Secrets.
  const running = new Promise(setImmediate).then(() => access.run(stop.signal));
  /**
   * One for each tenant cluster that may have an API, and two of each watch: of Secrets and of
   * Services, which are refused.
   */
  const sleepers = (): number =>
    settings.current().tenantApi.enabled ? discovery.clusters().filter(mayHaveApi).length + 4 : 0;
  /**
   * Until every tenant cluster that is followed has been looked at, and waits for the next time.
   */
  const settle = async (): Promise<void> => {
    do await new Promise((resolve) => setTimeout(resolve, 1));
    while (clock.sleepers !== sleepers());
  };
  return {
    access,
    settings,
    discovery,
    clock,
    logger,
    requests: requested,
    settle,
    /** Lets time go by: without a duration longer than every wait before a look. */
    pass: async (ms = 400_000) => {
      await settle();
      await clock.advance(ms);
      await settle();
    },
    /** Puts a Secret with one key, or another answer of the API server. */
    put: (place: string, content: string | RequestOutcome, key = 'config') =>
      void secrets.set(
        place,
        typeof content === 'string'
          ? { kind: 'ok', status: 200, body: { data: { [key]: base64(content) } } }
          : content,
      ),
    remove: (place: string) => void secrets.delete(place),
    failures: () =>
      access.missing().map(({ tenantCluster, reason }) => `${tenantCluster}: ${reason}`),
    stop: async () => {
      stop.abort();
      await running;
    },
  };
}
