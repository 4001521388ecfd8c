import { execFile } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { isRecord } from '../../operator/model/is-record.ts';
import { KUBERNETES_SERIES } from './release.ts';

/** Runs kubectl with a kubeconfig and resolves to its standard output; rejects with its standard error. */
export type Kubectl = (args: readonly string[], input?: string) => Promise<string>;

export function createKubectl(program: string, kubeconfig: string): Kubectl {
  return (args, input = '') =>
    new Promise((resolve, reject) => {
      const child = execFile(
        program,
        ['--kubeconfig', kubeconfig, ...args],
        { maxBuffer: 64 * 1024 * 1024 },
        (error, stdout, stderr) => {
          if (error === null) resolve(stdout);
          else reject(new Error(`kubectl ${args.join(' ')}: ${stderr.trim() || error.message}`));
        },
      );
      child.stdin?.end(input);
    });
}

/**
 * The path of the first kubectl of the PATH, where it is at most one minor version away from the API server, as
 * https://kubernetes.io/releases/version-skew-policy/#kubectl asks; else the other one.
 */
export async function findKubectl(
  otherwise: string,
  path: string = process.env['PATH'] ?? '',
): Promise<string> {
  for (const directory of path.split(delimiter).filter((each) => each !== '')) {
    const program = join(directory, 'kubectl');
    const found = await access(program, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return (await fits(program)) ? program : otherwise;
  }
  return otherwise;
}

async function fits(program: string): Promise<boolean> {
  const [major = 0, minor = 0] = KUBERNETES_SERIES.split('.').map(Number);
  try {
    const { stdout } = await promisify(execFile)(program, ['version', '--client', '-o', 'json']);
    const answer: unknown = JSON.parse(stdout);
    const version = isRecord(answer) ? answer['clientVersion'] : undefined;
    if (!isRecord(version)) return false;
    // Clouds write "35+".
    const given = Number.parseInt(String(version['minor']), 10);
    return Number(version['major']) === major && Math.abs(given - minor) <= 1;
  } catch {
    return false;
  }
}
