// Generated from crds/ by "npm run generate". Change the YAML there, never this file.

export interface BillingDestinationSpec {
  type: 'lago' | 'stripe' | 'metronome' | 'webhook' | 'kafka' | 'noop';
  suspend?: boolean;
  startFrom?: 'now' | 'earliest';
  mode?: 'test' | 'live';
  planChange?: 'now' | 'period-end';
  aggregate?: 'none' | '1h';
  late?: 'send' | 'next' | 'credit' | 'hold';
  managePrices?: boolean;
  metrics?: {
    include?: string[];
    exclude?: string[];
  };
  webhook?: {
    url: string;
    secretRefs?: {
      name: string;
      key: string;
    }[];
    headers?: {
      name: string;
      value?: string;
      valueSecretRef?: {
        name: string;
        key: string;
      };
    }[];
  };
  kafka?: {
    brokers: string[];
    topic: string;
    contentMode?: 'structured' | 'binary';
    tls?: boolean;
    caSecretRef?: {
      name: string;
      key: string;
    };
    sasl?: {
      mechanism?: 'SCRAM-SHA-512' | 'SCRAM-SHA-256' | 'PLAIN';
      username: string;
      passwordSecretRef: {
        name: string;
        key: string;
      };
    };
  };
  lago?: {
    url: string;
    apiKeySecretRef: {
      name: string;
      key: string;
    };
    webhookSecretRefs?: {
      name: string;
      key: string;
    }[];
    planCode?: string;
    currency?: string;
  };
  stripe?: {
    apiKeySecretRef: {
      name: string;
      key: string;
    };
    webhookSecretRefs?: {
      name: string;
      key: string;
    }[];
    url?: string;
    splitMetersBy?: string[];
    autoSubscribe?: boolean;
    cancelOnRemove?: boolean;
    collectionMethod?: 'charge_automatically' | 'send_invoice';
    daysUntilDue?: number;
    automaticTax?: boolean;
    billingDay?: number;
    maxRequestsPerSecond?: number;
    meterEventStream?: boolean;
    planCode?: string;
    currency?: string;
    apiVersion?: string;
  };
  metronome?: {
    url?: string;
    apiTokenSecretRef: {
      name: string;
      key: string;
    };
    webhookSecretRefs?: {
      name: string;
      key: string;
    }[];
    rateCard?: string;
    currency?: string;
    stripeLink?: {
      apiKeySecretRef: {
        name: string;
        key: string;
      };
      collectionMethod?: 'charge_automatically' | 'send_invoice';
      url?: string;
      apiVersion?: string;
    };
  };
}

export interface BillingDestinationStatus {
  summary?: string;
  conditions?: {
    type: string;
    status: 'True' | 'False' | 'Unknown';
    observedGeneration?: number;
    lastTransitionTime: string;
    reason: string;
    message: string;
  }[];
  observedGeneration?: number;
  cursor?: {
    sequence: number;
    windowEnd?: string;
  };
  lag?: {
    events: number;
    seconds: number;
  };
  delivered?: number;
  rate?: {
    inUse: string;
    limit: string;
    headroom: string;
  };
  deadLetters?: number;
  planChanges?: {
    tenant: string;
    from: string;
    to: string;
    at: string;
    problem?: string;
  }[];
  parkedTenants?: {
    total: number;
    items?: {
      tenant: string;
      reason: string;
      events: number;
      since: string;
    }[];
  };
  lastDeliveryTime?: string;
  lastError?: string;
}

export interface TenantOverrideSpec {
  match: {
    namespace?: string;
    name?: string;
    selector?: {
      matchLabels?: {
        [k: string]: string;
      };
      matchExpressions?: {
        key: string;
        operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
        values?: string[];
      }[];
    };
  };
  tenant?: string;
  displayName?: string;
  project?: string;
  plan?: string;
  planChange?: 'now' | 'period-end';
  tenantClass?: string;
  billing?: {
    address?: {
      line1?: string;
      line2?: string;
      city?: string;
      state?: string;
      postalCode?: string;
      country?: string;
    };
    taxId?: string;
    timeZone?: string;
    netTermsDays?: number;
  };
  exclude?: boolean;
  enforcement?: 'exempt' | 'enforced';
  budget?: {
    amount: string;
    currency?: string;
    metric?: string;
    period: 'month' | 'rolling' | 'prepaid';
    days?: number;
    thresholds?: number[];
    atLimit?: 'none' | 'warn' | 'suspend';
    grace?: {
      time?: string;
      amount?: string;
    };
  };
  metering?: {
    cpuMemoryBasis?: 'usage' | 'requests' | 'max';
    meterControlPlane?: boolean;
    meterByNamespace?: boolean;
    meterByQueue?: boolean;
    podLifetime?: 'running' | 'scheduled';
    privateNodeBilling?: 'node' | 'usage';
    privateNodeTrust?: 'tenant' | 'provider';
    privateNodeLabels?: {
      [k: string]: string;
    };
    maxPrivateNodes?: number;
    ownNodeTrust?: 'tenant' | 'provider';
    ownNodeLabels?: {
      [k: string]: string;
    };
    maxOwnNodes?: number;
    excludeNamespaces?: string[];
    egressQuery?: string;
    gpuUtilQuery?: string;
    gpuCountQuery?: string;
  };
}

export interface TenantOverrideStatus {
  summary?: string;
  conditions?: {
    type: string;
    status: 'True' | 'False' | 'Unknown';
    observedGeneration?: number;
    lastTransitionTime: string;
    reason: string;
    message: string;
  }[];
  observedGeneration?: number;
  matched?: {
    total: number;
    items?: string[];
  };
  budgets?: {
    total: number;
    usedUp: number;
    items?: {
      tenant: string;
      amount: string;
      used: string;
      left: string;
      unit: string;
      periodStart?: string;
      periodEnd?: string;
      usedUpAt?: string;
      state?: 'active' | 'warning' | 'suspended';
      uncounted?: string[];
    }[];
  };
}

export interface MeteringPolicySpec {
  collectionInterval?: string;
  reconcileInterval?: string;
  maxBackfill?: string;
  offboardGrace?: string;
  settlingDelay?: string;
  cpuMemoryBasis?: 'usage' | 'requests' | 'max';
  meterControlPlane?: boolean;
  meterByNamespace?: boolean;
  meterByQueue?: boolean;
  gpuQuantity?: 'equivalents' | 'devices';
  podLifetime?: 'running' | 'scheduled';
  privateNodeBilling?: 'node' | 'usage';
  privateNodeTrust?: 'tenant' | 'provider';
  privateNodeDowntimePercent?: number;
  maxPrivateNodes?: number;
  ownNodeTrust?: 'tenant' | 'provider';
  ownNodeDowntimePercent?: number;
  maxOwnNodes?: number;
  excludeNamespaces?: string[];
  egressQuery?: string;
  gpuUtilQuery?: string;
  gpuCountQuery?: string;
  watchDeletions?: boolean;
  gpuResources?: string[];
  draGpuDrivers?: string[];
  unhealthyNodeTaints?: string[];
  skuLabel?: string;
  capacityTypeLabel?: string;
  dedicatedNodeLabel?: string;
  regionFromNode?: boolean;
  zone?: string;
  defaultTenantClass?: string;
  tenantSource?: 'cluster' | 'project';
  logLevel?: 'debug' | 'info' | 'warn' | 'error';
  customMetrics?: {
    code: string;
    unit: string;
    dimensions?: string[];
  }[];
  retention?: string;
  anchors?: {
    configMap?: boolean;
    webhook?: string;
  };
  discovery?: {
    sources?: ('vcluster' | 'k3k' | 'kamaji' | 'hypershift' | 'cluster-api' | 'namespaces')[];
    namespaceTenantKeys?: string[];
    namespaces?: string[];
    platformCluster?: string;
    trustPlatformMetadata?: boolean;
    trustWorkloadMetadata?: boolean;
  };
  tenantAPI?: {
    enabled?: boolean;
    kubeconfigSecret?: string;
    adminFallback?: boolean;
    allowedHosts?: string[];
  };
  ingest?: {
    unknownTenants?: 'hold' | 'create';
    window?: string;
    entitlementAccessQuery?: boolean;
    lateFor?: string;
    subjects?: {
      subject: string;
      tenant: string;
    }[];
    cloudEvents?: {
      preset?: 'litellm' | 'praxis' | 'kong' | 'envoy' | 'openmeter';
      type?: string;
      subject?: string;
      subjectPrefix?: string;
      ignoreSubjects?: string[];
      tokens?: {
        input?: string;
        output?: string;
        cacheRead?: string;
        cacheWrite?: string;
        reasoning?: string;
        inputIncludesCached?: boolean;
        outputIncludesReasoning?: boolean;
        count?: string;
        kind?: string;
        dimensions?: {
          [k: string]: string;
        };
      };
      metrics?: {
        metric: string;
        value?: string;
        unit?: string;
        dimensions?: {
          [k: string]: string;
        };
      }[];
    }[];
  };
  defaultBudget?: {
    amount: string;
    currency?: string;
    metric?: string;
    period: 'month' | 'rolling' | 'prepaid';
    days?: number;
    thresholds?: number[];
    atLimit?: 'none' | 'warn' | 'suspend';
    grace?: {
      time?: string;
      amount?: string;
    };
  };
  portal?: {
    name?: string;
    logo?: string;
    colors?: {
      light?: string;
      dark?: string;
    };
    frameAncestors?: string[];
  };
  focus?: {
    provider?: string;
    publisher?: string;
    invoiceIssuer?: string;
    hostProvider?: string;
    downtime?: boolean;
    export?: {
      format?: 'parquet' | 'csv';
      grain?: 'hour' | 'day';
      version?: '1.2' | '1.4';
      directory?: string;
      bucket?: {
        endpoint: string;
        region: string;
        name: string;
        prefix?: string;
        accessKeyIdSecretRef: {
          name: string;
          key: string;
        };
        secretAccessKeySecretRef: {
          name: string;
          key: string;
        };
      };
    };
    services?: {
      metric: string;
      name: string;
      subcategory:
        | 'AI Platforms'
        | 'Bots'
        | 'Generative AI'
        | 'Machine Learning'
        | 'Natural Language Processing'
        | 'Other (AI and Machine Learning)'
        | 'Analytics Platforms'
        | 'Business Intelligence'
        | 'Data Processing'
        | 'Search'
        | 'Streaming Analytics'
        | 'Other (Analytics)'
        | 'Productivity and Collaboration'
        | 'Other (Business Applications)'
        | 'Containers'
        | 'End User Computing'
        | 'Quantum Compute'
        | 'Serverless Compute'
        | 'Virtual Machines'
        | 'Other (Compute)'
        | 'Caching'
        | 'Data Warehouses'
        | 'Ledger Databases'
        | 'NoSQL Databases'
        | 'Relational Databases'
        | 'Time Series Databases'
        | 'Other (Databases)'
        | 'Developer Platforms'
        | 'Continuous Integration and Deployment'
        | 'Development Environments'
        | 'Source Code Management'
        | 'Quality Assurance'
        | 'Other (Developer Tools)'
        | 'Identity and Access Management'
        | 'Other (Identity)'
        | 'API Management'
        | 'Messaging'
        | 'Workflow Orchestration'
        | 'Other (Integration)'
        | 'IoT Analytics'
        | 'IoT Platforms'
        | 'Other (Internet of Things)'
        | 'Architecture'
        | 'Compliance'
        | 'Cost Management'
        | 'Data Governance'
        | 'Disaster Recovery'
        | 'Endpoint Management'
        | 'Observability'
        | 'Support'
        | 'Other (Management and Governance)'
        | 'Content Creation'
        | 'Gaming'
        | 'Media Streaming'
        | 'Mixed Reality'
        | 'Other (Media)'
        | 'Data Migration'
        | 'Resource Migration'
        | 'Other (Migration)'
        | 'Other (Mobile)'
        | 'Multicloud Integration'
        | 'Other (Multicloud)'
        | 'Application Networking'
        | 'Content Delivery'
        | 'Network Connectivity'
        | 'Network Infrastructure'
        | 'Network Routing'
        | 'Network Security'
        | 'Other (Networking)'
        | 'Secret Management'
        | 'Security Posture Management'
        | 'Threat Detection and Response'
        | 'Other (Security)'
        | 'Backup Storage'
        | 'Block Storage'
        | 'File Storage'
        | 'Object Storage'
        | 'Storage Platforms'
        | 'Other (Storage)'
        | 'Application Platforms'
        | 'Other (Web)'
        | 'Other (Other)';
    }[];
  };
  enforcement?: {
    mode?: 'observe' | 'annotate' | 'enforce';
    rules?: {
      event: string;
      state: 'active' | 'warning' | 'delinquent' | 'suspended';
    }[];
    neverSuspend?: string[];
  };
  prometheus?: {
    url?: string;
    preset?: 'default' | 'vcluster-platform';
    basicAuth?: {
      username: string;
      passwordSecretRef: {
        name: string;
        key: string;
      };
    };
    bearerTokenSecretRef?: {
      name: string;
      key: string;
    };
    headers?: {
      name: string;
      value?: string;
      valueSecretRef?: {
        name: string;
        key: string;
      };
    }[];
  };
}

export interface MeteringPolicyStatus {
  summary?: string;
  conditions?: {
    type: string;
    status: 'True' | 'False' | 'Unknown';
    observedGeneration?: number;
    lastTransitionTime: string;
    reason: string;
    message: string;
  }[];
  observedGeneration?: number;
  holder?: {
    leaseUid: string;
    namespace: string;
    ledger: string;
    renewedAt: string;
  };
  lastWindow?: string;
  windowSeconds?: number;
  tenants?: number;
  tenantClusters?: number;
  budgets?: {
    total: number;
    usedUp: number;
    items?: {
      tenant: string;
      amount: string;
      used: string;
      left: string;
      unit: string;
      periodStart?: string;
      periodEnd?: string;
      usedUpAt?: string;
      state?: 'active' | 'warning' | 'suspended';
      uncounted?: string[];
    }[];
  };
  enforcement?: {
    mode: 'observe' | 'annotate' | 'enforce';
    suspendedTenantClusters: number;
    pendingObjects: number;
  };
  failedTenantAPIs?: {
    total: number;
    items?: {
      tenantCluster: string;
      reason: string;
      since: string;
    }[];
  };
  withoutKubeconfig?: number;
  gaps?: {
    total: number;
    items?: {
      source: string;
      scope: string;
      from: string;
      to: string;
      reason: string;
    }[];
  };
  destinations?: {
    name: string;
    cursor: number;
    lagSeconds: number;
  }[];
  ledger?: {
    id?: string;
    sequence: number;
    bytes: number;
    segments: number;
    chain?: string;
  };
}

export interface PriceBookSpec {
  currency: string;
  prices: {
    name: string;
    metric: string;
    match?: {
      [k: string]: string;
    };
    rates: {
      from: string;
      amount?: string;
      per?: 'thousand' | 'million';
      graduated?: {
        upTo?: string;
        amount: string;
      }[];
      volume?: {
        upTo?: string;
        amount: string;
      }[];
      included?: string;
      withdrawn?: boolean;
    }[];
  }[];
}

export interface PriceBookStatus {
  summary?: string;
  conditions?: {
    type: string;
    status: 'True' | 'False' | 'Unknown';
    observedGeneration?: number;
    lastTransitionTime: string;
    reason: string;
    message: string;
  }[];
  observedGeneration?: number;
  prices?: number;
  fixedBefore?: string;
}
