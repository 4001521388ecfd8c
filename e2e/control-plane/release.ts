import { access, constants } from 'node:fs/promises';
import { arch, platform } from 'node:os';
import { join } from 'node:path';

/** The Kubernetes release that the local control plane runs and that is built where nothing can be downloaded. */
export const KUBERNETES_VERSION = 'v1.36.3';

/** Any patch of this series serves as well. */
export const KUBERNETES_SERIES = '1.36';

/** The programs of a control plane, as they are called on disk. */
export const BINARIES = ['etcd', 'kube-apiserver', 'kubectl'] as const;

const GO_ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

/** Operating system and architecture as Go and the Kubernetes releases spell them: `linux-amd64`. */
export function platformName(): string {
  return `${platform()}-${GO_ARCHITECTURES[arch()] ?? arch()}`;
}

/** Where to find the programs of one control plane. */
export interface ControlPlaneBinaries {
  readonly directory: string;
  readonly etcd: string;
  readonly kubeApiserver: string;
  readonly kubectl: string;
}

export function binariesIn(directory: string): ControlPlaneBinaries {
  return {
    directory,
    etcd: join(directory, 'etcd'),
    kubeApiserver: join(directory, 'kube-apiserver'),
    kubectl: join(directory, 'kubectl'),
  };
}

/** The programs that a directory lacks, or that cannot be executed. */
export async function missingBinaries(directory: string): Promise<readonly string[]> {
  const missing: string[] = [];
  for (const name of BINARIES) {
    const usable = await access(join(directory, name), constants.X_OK).then(
      () => true,
      () => false,
    );
    if (!usable) missing.push(name);
  }
  return missing;
}
