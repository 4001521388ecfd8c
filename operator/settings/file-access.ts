import type { Environment } from './load-environment.ts';
import { invalid, problemText } from './parsers/parser.ts';
import { LEDGER } from './table/service.ts';

type FileAccess = 'read' | 'write';

/** The variables that name a path, and the access they need. */
const PATHS: readonly {
  readonly name: string;
  readonly default?: string;
  readonly needs: readonly FileAccess[];
}[] = [
  { name: 'DATA_DIR', default: LEDGER.dataDir.default, needs: ['write', 'read'] },
  { name: 'LEDGER_URL_FILE', needs: ['read'] },
  { name: 'TENANT_CLUSTERS_FILE', needs: ['read'] },
  { name: 'PROMETHEUS_METRICS_FILE', needs: ['read'] },
  { name: 'API_TOKEN_FILE', needs: ['read'] },
  { name: 'INGEST_TOKEN_FILE', needs: ['read'] },
  { name: 'PORTAL_KEYS_FILE', needs: ['read'] },
  { name: 'PROMETHEUS_BEARER_TOKEN_FILE', needs: ['read'] },
  { name: 'KUBECONFIG', needs: ['read'] },
];

/**
 * The paths of the environment that the process may not open, each as `NAME: what is wrong: "path";
 * how to fix it`. The image starts Node with `--permission`. Without this check the error would
 * name no variable.
 */
export function pathProblems(
  environment: Environment,
  /** The file permissions of the process. Node's `process` fits. */
  rights: {
    /** Absent without `--permission`: then every file may be read and written. */
    readonly permission?: { has(scope: string, reference: string): boolean } | undefined;
    /** The command-line options of Node. */
    readonly execArgv: readonly string[];
  },
): readonly string[] {
  return PATHS.flatMap(({ name, default: otherwise = '', needs }) => {
    const path = environment[name]?.trim() || otherwise;
    if (path === '') return [];
    const denied = needs.find((access) => rights.permission?.has(`fs.${access}`, path) === false);
    if (denied === undefined) return [];
    const option = `--allow-fs-${denied}=`;
    const allowed = rights.execArgv
      .filter((argument) => argument.startsWith(option))
      .map((argument) => argument.slice(option.length));
    const fix = `name a path below ${allowed.join(' or ') || 'none'}, or start Node with ${option}${path}`;
    return [problemText(name, invalid(`the process may not ${denied} there`, fix), path)];
  });
}
