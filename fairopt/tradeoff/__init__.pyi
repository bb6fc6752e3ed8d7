from fairopt.tradeoff import preferences as preferences
from fairopt.tradeoff.agreement import Heterogeneity as Heterogeneity
from fairopt.tradeoff.agreement import TradeoffReport as TradeoffReport
from fairopt.tradeoff.agreement import heterogeneity as heterogeneity
from fairopt.tradeoff.agreement import no_tradeoff as no_tradeoff
from fairopt.tradeoff.frontier import Frontier as Frontier
