import { execFile } from 'node:child_process';

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
